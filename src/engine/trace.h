// One prompt through the model outside the serving loop, with everything between the layers kept: for
// comparison with another implementation, and to see where a difference begins.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/cpu_device.h"
#include "tensor/dtype.h"
#include "tensor/safetensors.h"

namespace glint {

/// A tensor of a trace: its values are float32 or int32, by `dtype`.
struct TraceTensor {
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::vector<float> floats;
  std::vector<int32_t> ints;
};

using TraceTensors = std::map<std::string, TraceTensor>;

struct TraceSettings {
  std::vector<int32_t> input_ids;
  ops::ComputeDType dtype = ops::ComputeDType::bfloat16;
  std::optional<KvCacheDType> kv_cache_dtype;  // absent: rows and index keys of the compute type
  Isa isa = best_isa();
  int threads = 0;
  int64_t keep = 0;   // rows kept, counted from the end; 0: all
  int64_t chunk = 0;  // rows of one step; 0: all at once
  bool mtp = false;
  bool layerwise = false;  // with `force`: every layer starts from the forced trace's hidden states
  std::optional<std::filesystem::path> force;  // a trace of the same prompt that kept all rows

  /// The device that computes; null: the CPU. `model` is then the host's, as bound to the checkpoint.
  std::function<std::unique_ptr<StepDevice>(const std::shared_ptr<const Model>&, const DeviceOptions&)>
      make_device;
};

/// Runs the prompt and returns, with S = prompt length, R = rows kept, D = min(12, S - 1):
///   input_ids [S]; logits [R, V]; final_hidden [S, H]; hidden.L [R, H]; topk.L [R, index_topk] (layers that
///   own an indexer; ascending, -1 after the last); experts.L, expert_weights.L [R, k] (sparse layers);
///   decode_logits [D, V]: the last D positions again, one token at a time through a cache of their own; with
///   `mtp` mtp_logits [5, V], mtp_tokens [6], mtp_topk [count].
/// Under `force` the lists and experts of the given trace are used, while topk.L and experts.L still tell
/// what this model would have chosen. Throws bad_input on ids outside the vocabulary, an empty prompt, a
/// forced trace that does not fit.
TraceTensors run_trace(std::shared_ptr<const Model> model, const TraceSettings& options);

void write_trace(const std::filesystem::path& path, const TraceTensors& tensors);

/// Reads the int32 tensor `input_ids` of a safetensors file.
std::vector<int32_t> read_input_ids(const std::filesystem::path& path);

}  // namespace glint
