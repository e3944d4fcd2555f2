#include "quantize/checkpoint_view.h"

#include "base/error.h"
#include "base/integers.h"
#include "base/numeric.h"
#include "quantize/plan_source.h"
#include "tensor/encode.h"

namespace glint::quantize {

namespace {

uint8_t byte_at(std::span<const std::byte> bytes, int64_t place) {
  return std::to_integer<uint8_t>(bytes[static_cast<size_t>(place)]);
}

float float_at(std::span<const std::byte> bytes, int64_t place) {
  return load_unaligned<float>(bytes.data() + 4 * place);
}

}  // namespace

float ViewTensor::global_scale() const {
  return float_at(stored[2], 0);
}

void ViewTensor::decode(int64_t begin, int64_t end, std::vector<float>& values) const {
  const int64_t cols = model.shape.back();
  values.resize(static_cast<size_t>((end - begin) * cols));
  float* out = values.data();
  for (int64_t i = begin * cols; i < end * cols; ++i) {
    switch (form) {
      case Form::f32:
        *out++ = float_at(stored[0], i);
        break;
      case Form::bf16:
        *out++ = bf16_to_float(load_unaligned<uint16_t>(stored[0].data() + 2 * i));
        break;
      case Form::fp8: {
        const int64_t scale_cols = ceil_div(cols, kFp8BlockSize);
        const int64_t block = i / cols / kFp8BlockSize * scale_cols + i % cols / kFp8BlockSize;
        *out++ = e4m3_to_float(byte_at(stored[0], i)) * float_at(stored[1], block);
        break;
      }
      case Form::nvfp4: {
        const float step = e4m3_to_float(byte_at(stored[1], i / kNvfp4BlockSize)) * global_scale();
        *out++ = kE2m1[(byte_at(stored[0], i / 2) >> (4 * (i % 2))) & 15] * step;
        break;
      }
    }
  }
}

CheckpointView::CheckpointView(const std::filesystem::path& folder) {
  QuantizeOptions options;
  options.source = folder;
  options.target = Target::bf16;  // only what is stored matters here
  Plan plan;
  plan_source(options, plan);
  config_ = plan.config;
  set_ = open_shards(folder);
  stored_tensors_ = plan.source_counts.total().tensors;
  for (const SafetensorsFile& shard : set_.shards) file_bytes_ += shard.file_bytes();
  for (const Job& job : plan.jobs) {
    ViewTensor tensor;
    tensor.model = {job.name, job.shape, job.role, job.layer};
    tensor.form = job.from;
    tensor.stored_count = job.stored_count;
    for (uint32_t i = 0; i < job.stored_count; ++i) {
      const SourceRange& range = job.stored[i];
      tensor.stored[i] = set_.shards[range.file].mapping().subspan(static_cast<size_t>(range.begin),
                                                                   static_cast<size_t>(range.bytes));
    }
    tensors_.push_back(std::move(tensor));
  }
}

std::vector<std::string> CheckpointView::files() const {
  std::vector<std::string> names;
  for (const SafetensorsFile& shard : set_.shards) names.push_back(shard.path().filename().string());
  return names;
}

}  // namespace glint::quantize
