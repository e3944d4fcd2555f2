#include "checkpoint/dummy_checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/make_checkpoint.h"
#include "stored_copy.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace glint {
namespace {

int64_t code_bytes(const Weight& w) {
  const int64_t values = w.rows * w.cols;
  return w.format == WeightFormat::bf16 ? 2 * values : w.format == WeightFormat::nvfp4 ? values / 2 : values;
}

void expect_same(const Weight& made, const Weight& read, const std::string& module) {
  ASSERT_EQ(made.format, read.format) << module;
  ASSERT_EQ(made.rows, read.rows) << module;
  ASSERT_EQ(made.cols, read.cols) << module;
  EXPECT_EQ(std::memcmp(made.data, read.data, static_cast<size_t>(code_bytes(made))), 0) << module;
  if (made.format == WeightFormat::fp8_block) {
    const auto blocks = static_cast<size_t>((made.rows + 127) / 128 * ((made.cols + 127) / 128));
    EXPECT_EQ(std::memcmp(made.scale, read.scale, 4 * blocks), 0) << module;
  }
  if (made.format == WeightFormat::nvfp4) {
    EXPECT_EQ(
        std::memcmp(made.block_scale, read.block_scale, static_cast<size_t>(made.rows * made.cols / 16)), 0)
        << module;
    EXPECT_EQ(made.global_scale, read.global_scale) << module;
    EXPECT_EQ(made.global_divides, read.global_divides) << module;
  }
}

TEST(DummyCheckpoint, HoldsWhatMakeCheckpointWrites) {
  for (const CheckpointFormat format :
       {CheckpointFormat::bf16, CheckpointFormat::fp8, CheckpointFormat::nvfp4}) {
    SCOPED_TRACE(format_name(format));
    const TempFolder folder;
    make_checkpoint(standin_options("micro", 5, format, folder.path()));
    const auto read = Checkpoint::open(folder.path());
    const auto made = open_dummy_checkpoint(folder.path(), format, 5);
    int64_t seen = -1;
    made->read_all([&](int64_t done, int64_t total) {
      EXPECT_EQ(total, made->tensor_bytes());
      seen = done;
      return true;
    });
    EXPECT_EQ(seen, made->tensor_bytes());
    EXPECT_EQ(made->tensor_counts().total().bytes, read->tensor_counts().total().bytes);
    int64_t matrices = 0;
    for (const ModelTensor& tensor : model_tensors(made->config())) {
      if (tensor.shape.size() == 1) {
        EXPECT_EQ(made->vector(tensor.name), read->vector(tensor.name)) << tensor.name;
        continue;
      }
      const std::string module = tensor.name.substr(0, tensor.name.size() - 7);
      expect_same(made->matrix(module), read->matrix(module), module);
      EXPECT_TRUE(made->generated(made->matrix(module).data).has_value());
      ++matrices;
    }
    EXPECT_GT(matrices, 20);
    EXPECT_FALSE(read->generated(read->matrix("lm_head").data).has_value());
  }
}

/// What a device computes from is the rule of the tensor that the view stands for.
TEST(DummyCheckpoint, TellsTheRuleOfEachMatrix) {
  const TempFolder folder;
  make_checkpoint(standin_options("micro", 0, CheckpointFormat::bf16, folder.path()));
  const auto made = open_dummy_checkpoint(folder.path(), CheckpointFormat::bf16);
  made->read_all(nullptr);
  int64_t matrices = 0;
  for (const ModelTensor& tensor : model_tensors(made->config())) {
    if (tensor.shape.size() == 1) continue;
    const std::string module = tensor.name.substr(0, tensor.name.size() - 7);
    const Weight view = made->matrix(module);
    const auto rule = made->generated(view.data);
    ASSERT_TRUE(rule.has_value());
    std::vector<uint16_t> values(static_cast<size_t>(view.rows * view.cols));
    rule->fill_bf16(0, values);
    EXPECT_EQ(std::memcmp(values.data(), view.data, 2 * values.size()), 0) << module;
    ++matrices;
  }
  EXPECT_GT(matrices, 20);
}

TEST(DummyCheckpoint, StopsWhenTold) {
  const TempFolder folder;
  make_checkpoint(standin_options("micro", 0, CheckpointFormat::bf16, folder.path()));
  const auto made = open_dummy_checkpoint(folder.path(), CheckpointFormat::bf16);
  int calls = 0;
  made->read_all([&](int64_t, int64_t) {
    ++calls;
    return false;
  });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace glint
