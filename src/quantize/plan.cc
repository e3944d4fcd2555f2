#include "quantize/plan.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"
#include "quantize/buffers.h"
#include "quantize/plan_source.h"
#include "base/digest.h"

namespace glint::quantize {

namespace {

/// Raise it when the same options would give other bytes than before.
constexpr const char* kPlanVersion = "glint-quantize-1";
/// Tensors from here on come first in a shard; their sizes are multiples of a page in the published config,
/// so they all stay page-aligned.
constexpr int64_t kLargeTensorBytes = 4096;
constexpr size_t kPageBytes = 4096;

/// An expert's three projections stay in one shard; so does a weight with its scales.
std::string unit_of(const Job& job) {
  if (job.role != TensorRole::routed_expert) return job.name;
  return job.name.substr(0, job.name.rfind('.', job.name.size() - std::string_view(".weight").size() - 1));
}

/// Every layer begins a new shard, and so does each tensor outside the layers.
class ShardPacker {
 public:
  ShardPacker(Plan& plan, int64_t limit) : plan_(plan), limit_(limit) {}

  void pack() {
    for (size_t first = 0; first < plan_.jobs.size();) {
      size_t end = first + 1;
      const std::string unit = unit_of(plan_.jobs[first]);
      while (end < plan_.jobs.size() && unit_of(plan_.jobs[end]) == unit) ++end;
      add_unit(first, end);
      first = end;
    }
    for (uint32_t shard = 0; shard < plan_.shards.size(); ++shard) finish(shard);
  }

 private:
  void add_unit(size_t first, size_t end) {
    const size_t output_first = plan_.outputs.size();
    int64_t bytes = 0;
    for (size_t number = first; number < end; ++number) {
      Job& job = plan_.jobs[number];
      job.output_first = static_cast<uint32_t>(plan_.outputs.size());
      for (TensorSpec& spec : output_specs(job)) {
        bytes += spec.bytes();
        plan_.output_counts.add(spec.dtype, spec.bytes());
        plan_.outputs.push_back({std::move(spec), static_cast<uint32_t>(number), 0, 0});
      }
      job.output_count = static_cast<uint32_t>(plan_.outputs.size()) - job.output_first;
    }
    const int64_t layer = plan_.jobs[first].layer;
    if (plan_.shards.empty() || layer < 0 || layer != layer_ || shard_bytes_ + bytes > limit_) {
      plan_.shards.emplace_back();
      shard_bytes_ = 0;
    }
    layer_ = layer;
    shard_bytes_ += bytes;
    for (size_t output = output_first; output < plan_.outputs.size(); ++output) {
      plan_.outputs[output].shard = static_cast<uint32_t>(plan_.shards.size()) - 1;
      plan_.shards.back().outputs.push_back(static_cast<uint32_t>(output));
    }
  }

  [[nodiscard]] auto source_order(uint32_t output) const {
    const OutputTensor& tensor = plan_.outputs[output];
    const SourceRange& range = plan_.jobs[tensor.job].stored[0];
    return std::tuple(tensor.spec.bytes() < kLargeTensorBytes, range.file, range.begin, output);
  }

  void finish(uint32_t number) {
    OutputShard& shard = plan_.shards[number];
    std::array<char, 64> name{};
    (void)std::snprintf(name.data(), name.size(), "model-%05u-of-%05zu.safetensors", number + 1,
                        plan_.shards.size());
    shard.file = name.data();
    std::sort(shard.outputs.begin(), shard.outputs.end(),
              [&](uint32_t a, uint32_t b) { return source_order(a) < source_order(b); });
    std::vector<TensorSpec> specs;
    for (const uint32_t output : shard.outputs) specs.push_back(plan_.outputs[output].spec);
    shard.head = safetensors_head(specs, {{"format", "pt"}}, kPageBytes);
    if (static_cast<int64_t>(shard.head.size()) - 8 > kSafetensorsHeaderBytesMax) {
      fail(ErrorKind::bad_input, shard.file, ": ", specs.size(), " tensors need a header of ",
           shard.head.size(), " bytes, at most ", kSafetensorsHeaderBytesMax,
           " are allowed: give a smaller --shard-bytes");
    }
    shard.bytes = static_cast<int64_t>(shard.head.size());
    for (const uint32_t output : shard.outputs) {
      plan_.outputs[output].place = shard.bytes;
      shard.bytes += plan_.outputs[output].spec.bytes();
    }
  }

  Plan& plan_;
  int64_t limit_;
  int64_t layer_ = -1;
  int64_t shard_bytes_ = 0;
};

/// Output of a copied weight's second, third, ... stored tensor follows the first's.
void link_copies(Plan& plan) {
  for (Lane& lane : plan.lanes) {
    for (LaneStep& step : lane.steps) {
      if (step.kind != LaneStep::Kind::copy) continue;
      const Job& job = plan.jobs[step.job];
      GLINT_CHECK(job.stored_count == job.output_count);
      uint32_t part = 0;
      while (job.stored[part].file != step.range.file || job.stored[part].begin != step.range.begin) ++part;
      step.output = job.output_first + part;
      GLINT_CHECK(plan.outputs[step.output].spec.bytes() == step.range.bytes);
    }
  }
}

void count_bundles(Plan& plan) {
  for (const Job& job : plan.jobs) {
    const bool expert = job.role == TensorRole::routed_expert && job.to == Form::nvfp4 && job.converts();
    if (expert && job.name.ends_with(".down_proj.weight")) ++plan.expert_bundles;
  }
}

std::string plan_hash(const Plan& plan, const QuantizeOptions& options) {
  Sha256 hash;
  hash.update(cat(kPlanVersion, "\n", target_name(options.target), " ",
                  global_scale_name(options.global_scale), " ", scale_search_name(options.scale_search), " ",
                  kv_cache_hint_name(options.kv_cache_hint), "\n"));
  for (const std::string& pattern : options.exclude) hash.update(cat("exclude ", pattern, "\n"));
  for (const SourceFile& file : plan.files) {
    hash.update(cat(file.name, " ", file.bytes, " ", file.modified_ns, "\n"));
  }
  hash.update(plan.config_text);
  for (const OutputShard& shard : plan.shards) hash.update(shard.file + shard.head);
  return hash.hex();
}

}  // namespace

std::string_view form_name(Form form) {
  switch (form) {
    case Form::bf16:
      return "BF16";
    case Form::f32:
      return "F32";
    case Form::fp8:
      return "FP8 blocks";
    case Form::nvfp4:
      return "NVFP4";
  }
  return "?";
}

int64_t Plan::source_bytes() const {
  int64_t bytes = 0;
  for (const SourceFile& file : files) bytes += file.bytes;
  return bytes;
}

int64_t Plan::output_bytes() const {
  int64_t bytes = 0;
  for (const OutputShard& shard : shards) bytes += shard.bytes;
  return bytes;
}

int64_t Plan::memory_bytes() const {
  // A worker holds its read-ahead, the weights that it codes (as they are stored and as BF16), a partner,
  // and their coded form, half of their size at most.
  const int64_t ahead = std::max(kReadAheadBytes, convert_bytes_max + kPieceBytes);
  return workers * (ahead + convert_bytes_max * 7 / 2 + local_hold_bytes_max) + hold_bytes_max +
         BufferPool::kIdleBytes;
}

Plan make_plan(const QuantizeOptions& options) {
  if (options.shard_bytes < 1) {
    fail(ErrorKind::bad_input, "--shard-bytes is ", options.shard_bytes, ", expected at least 1");
  }
  Plan plan;
  plan_source(options, plan);
  plan_partners(options, plan);
  ShardPacker(plan, options.shard_bytes).pack();
  link_copies(plan);
  count_bundles(plan);
  plan.hash = plan_hash(plan, options);
  if (plan.quantized == 0) {
    fail(ErrorKind::bad_input, options.source.string(), ": every tensor is in the form of --format ",
         target_name(options.target), " already: there is nothing to convert");
  }
  return plan;
}

}  // namespace glint::quantize
