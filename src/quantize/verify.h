// Is a checkpoint what it says it is? Structure, configs, scales, hashes, and the weights against those that
// they were made from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace glint::quantize {

struct VerifyOptions {
  std::filesystem::path folder;
  std::filesystem::path against;  // the checkpoint that it was converted from; empty: none
  int workers = 0;                // 0: one per CPU
  std::function<void(int64_t done, int64_t total)> progress;  // bytes; on the calling thread; may be empty
};

/// A converted tensor beside its source.
struct TensorComparison {
  std::string tensor;
  double relative_rmse = 0;  // sqrt(sum (w - v)^2 / sum w^2)
  double snr_db = 0;
  double cosine = 1;
  double largest_error = 0;
};

struct VerifyReport {
  std::vector<std::string> faults;    // what is wrong, one line each; empty: nothing
  std::vector<std::string> warnings;  // what is unusual, and what could not be checked
  int64_t tensors = 0;
  int64_t files_hashed = 0;
  int64_t copied_equal = 0;                // against: copied tensors with the source's bytes
  int64_t recoded_equal = 0;               // against: NVFP4 and FP8 tensors with the bytes of the definition
  std::vector<TensorComparison> compared;  // against: every converted tensor, the worst first
};

/// Checks a folder:
/// - structure: every tensor that config.json demands, once, with its dtype and shape, and no other; the
/// index
///   equal to the headers;
/// - configs: what quantization_config and hf_quant_config.json say of each module against what is stored;
/// - values: block scales finite, above zero, without sign; global scales finite and above zero, the same
/// bits
///   for gate and up; with scales by the maximum a block at 448 in each of them; FP8 codes, BF16 and F32
///   values finite;
/// - files: sizes and SHA-256 of run-manifest.json;
/// - against a source: copied tensors byte for byte; coded tensors against a second, dividing coder in the
/// mode
///   that the manifest or weight_scale_2 shows; errors of every converted tensor.
/// Throws only if there is nothing to check: no folder, no readable config.json, or a source that cannot be
/// opened.
VerifyReport verify_checkpoint(const VerifyOptions& options);

/// Faults and warnings of the configs alone: `forms` lists each module of a projection with what it is stored
/// as ("BF16", "FP8 blocks", "NVFP4").
struct ModuleForm {
  std::string module;
  std::string form;
  bool routed_expert = false;  // of a decoder layer
};
void check_configs(const std::filesystem::path& folder, const std::vector<ModuleForm>& forms,
                   VerifyReport& report);

/// Sizes and hashes of the manifest's files; nothing if there is no manifest.
std::optional<Json> read_manifest(const std::filesystem::path& folder, VerifyReport& report);

}  // namespace glint::quantize
