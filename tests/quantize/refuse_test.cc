// What a conversion refuses, and what is left behind when it ends in an error: nothing half written.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "quantize/read_ahead.h"
#include "quantize_support.h"
#include "support/expect_error.h"

namespace glint::quantize {
namespace {

class Refuse : public ::testing::Test {
 protected:
  void SetUp() override { make_standin("micro", 1, CheckpointFormat::bf16, source_, 60'000); }

  [[nodiscard]] QuantizeOptions options(Target target = Target::nvfp4_experts) const {
    return conversion(source_, out_, target);
  }
  void expect_nothing_left() const {
    EXPECT_FALSE(std::filesystem::exists(out_));
    EXPECT_FALSE(std::filesystem::exists(staging_folder(out_)));
  }
  /// Changes element [row][col] of a BF16 weight.
  void poke(const std::string& name, int64_t row, int64_t col, uint16_t bits) const {
    for (const auto& entry : std::filesystem::directory_iterator(source_)) {
      if (entry.path().extension() != ".safetensors") continue;
      StoredTensors file(entry.path());
      for (StoredCopy& tensor : file.tensors) {
        if (tensor.spec.name != name) continue;
        const auto place = static_cast<size_t>(2 * (row * tensor.spec.shape[1] + col));
        std::memcpy(tensor.bytes.data() + place, &bits, 2);
        return file.save(entry.path());
      }
    }
    FAIL() << name;
  }

  TempFolder folder_;
  std::filesystem::path source_ = folder_.path() / "source";
  std::filesystem::path out_ = folder_.path() / "out";
};

TEST_F(Refuse, NanAndInfinityWithTheirPlace) {
  const std::string name = "model.layers.5.mlp.experts.3.down_proj.weight";
  poke(name, 63, 31, 0x7FC1);  // the last element of the last row
  expect_error([&] { convert(options()); }, {name, "NaN", "row 63", "column 31"});
  expect_nothing_left();
  poke(name, 63, 31, 0);
  poke("model.layers.3.mlp.experts.0.up_proj.weight", 2, 5, 0xFF80);
  expect_error([&] { convert(options()); }, {"experts.0.up_proj", "infinity", "row 2", "column 5"});
  expect_error([&] { convert(options(Target::fp8_block)); },
               {"experts.0.up_proj", "infinity", "row 2", "column 5"});
  expect_nothing_left();
  // Untouched tensors are copied as they are.
  QuantizeOptions excluding = options();
  excluding.exclude = {"model.layers.3.mlp.experts.0.*"};
  convert(excluding);
  EXPECT_TRUE(std::filesystem::exists(out_ / "config.json"));
}

TEST_F(Refuse, ZeroTensorsBecomeOnes) {
  const std::string module = "model.layers.6.mlp.experts.2.";
  for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
    for (const auto& entry : std::filesystem::directory_iterator(source_)) {
      if (entry.path().extension() != ".safetensors") continue;
      StoredTensors file(entry.path());
      for (StoredCopy& tensor : file.tensors) {
        if (tensor.spec.name == module + projection + ".weight") {
          std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte{0});
          file.save(entry.path());
        }
      }
    }
  }
  convert(options());
  const auto tensors = stored_tensors_of(out_);
  const float one = 1.0F;
  EXPECT_EQ(std::memcmp(tensors.at(module + "gate_proj.weight_scale_2").bytes.data(), &one, 4), 0);
  EXPECT_EQ(tensors.at(module + "up_proj.weight_scale").bytes, std::string(32 * 4, '\x38'));
  EXPECT_EQ(tensors.at(module + "down_proj.weight").bytes, std::string(64 * 16, '\0'));
  EXPECT_EQ(manifest_of(out_).at("anomalies").at("all_zero_tensors"), 3);
}

TEST_F(Refuse, PlacesThatWouldLoseSomething) {
  QuantizeOptions wrong = options();
  wrong.out = source_;
  expect_error([&] { convert(wrong); }, {"source"});
  wrong.out = source_ / "below" / "deeper";
  expect_error([&] { convert(wrong); }, {"lies in the source folder"});
  wrong.out = folder_.path();
  expect_error([&] { convert(wrong); }, {"holds the source folder"});
  std::filesystem::create_directories(out_);
  std::ofstream(out_ / "precious") << "x";
  expect_error([&] { convert(options()); }, {out_.string(), "exists already"});
  std::filesystem::remove(out_ / "precious");
  std::filesystem::create_directories(staging_folder(out_));
  expect_error([&] { convert(options()); }, {"unfinished conversion", "--resume"});
  std::filesystem::remove(staging_folder(out_));
  convert(options());  // an empty folder is taken
  expect_error([&] { convert(options()); }, {"exists already"});
}

TEST_F(Refuse, WhatIsConvertedAlready) {
  expect_error([&] { convert(options(Target::bf16)); }, {"already", "bf16"});
  expect_error([&] { parse_target("fp4"); }, {"--format", "fp4", "nvfp4-experts+fp8"});
  expect_error([&] { parse_global_scale("x"); }, {"--global-scale", "torch-cuda"});
  QuantizeOptions none = options();
  none.source = folder_.path() / "nowhere";
  expect_error([&] { convert(none); }, {"nowhere"});
}

TEST_F(Refuse, WidthsThatNvfp4CannotHold) {
  const TempFolder other;
  std::string config = read_file(std::filesystem::path(GLINT_TEST_DATA) / "goldens/micro/config.json");
  const size_t at = config.find("\"moe_intermediate_size\": 32");
  ASSERT_NE(at, std::string::npos);
  config.replace(at, 27, "\"moe_intermediate_size\": 24");
  MakeCheckpointOptions made = standin_options("micro", 1, CheckpointFormat::bf16, other.path() / "source");
  made.config_text = config;
  make_checkpoint(made);
  expect_error([&] { make_plan(conversion(other.path() / "source", other.path() / "out")); },
               {"down_proj", "[64, 24]", "multiples of 16"});
}

TEST_F(Refuse, ASourceThatChangesUnderneath) {
  // The file being read: seen at its end. The next one: seen before it is read.
  const Plan plan = make_plan(options());
  for (const std::string& changed : {plan.files[0].name, plan.files[1].name}) {
    QuantizeHooks hooks;
    bool done = false;
    hooks.at_place = [&](std::string_view place) {
      if (place != "when a source is open" || done) return;
      done = true;
      for (const auto& entry : std::filesystem::directory_iterator(source_)) {
        if (entry.path().filename() != changed) continue;
        std::filesystem::last_write_time(entry.path(), std::filesystem::file_time_type::clock::now());
      }
    };
    QuantizeOptions one = options();
    one.workers = 1;
    expect_error([&] { convert(one, hooks); }, {changed, "changed while it was read"});
    EXPECT_TRUE(done);
    expect_nothing_left();
  }
}

TEST_F(Refuse, AFileThatEndsEarly) {
  const std::filesystem::path file = folder_.path() / "file";
  std::ofstream(file) << std::string(100'000, 'a');
  const SourceReader reader(file, 100'000, 0);
  std::filesystem::resize_file(file, 50'000);
  std::vector<std::byte> bytes(60'000);
  expect_error([&] { reader.read(10'000, bytes); }, {file.string(), "ends at byte 50000", "expected 100000"});
  BufferPool pool;
  ReadAhead ahead(reader, pool, {{0, 10'000, 80'000, {}}}, 1 << 20);
  Segment segment;
  expect_error([&] { ahead.next(segment); }, {file.string(), "ends at byte 50000"});
}

/// Runs `body` in a child; its exit status.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST_F(Refuse, ADiskThatIsFull) {
  // A limit on the size of files stands for the disk: the third shard's space cannot be reserved.
  const auto limited = [&](rlim_t bytes) {
    return in_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      try {
        convert(options());
        return 1;
      } catch (const Error& error) {
        const std::string text = error.what();
        return error.kind() == ErrorKind::io && text.find("cannot reserve its space") != std::string::npos
                   ? 0
                   : 2;
      }
    });
  };
  EXPECT_EQ(limited(100'000), 0);
  EXPECT_FALSE(std::filesystem::exists(out_));
  if (std::filesystem::exists(staging_folder(out_))) {
    for (const auto& entry : std::filesystem::directory_iterator(staging_folder(out_))) {
      EXPECT_EQ(entry.path().string().find(".safetensors.partial"), std::string::npos) << entry.path();
    }
  }
  QuantizeOptions again = options();
  again.resume = true;
  convert(again);
  const TempFolder other;
  QuantizeOptions plain = options();
  plain.out = other.path() / "plain";
  convert(plain);
  expect_same_folders(out_, plain.out);
}

}  // namespace
}  // namespace glint::quantize
