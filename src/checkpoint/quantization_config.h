// What config.json and hf_quant_config.json of a quantised checkpoint say beside the tensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/config.h"
#include "checkpoint/plan.h"

namespace glint {

/// The value of `quantization_config` for a quantised format, keys in the order of the published files.
OrderedJson quantization_config(const ModelConfig& config, CheckpointFormat format);

/// hf_quant_config.json of ModelOpt's NVFP4.
OrderedJson hf_quant_config(const ModelConfig& config);

/// The modules that the FP8 form leaves in BF16, as the published list names them (541 entries for the
/// published config, one of them a name that no tensor has: "indexers_proj" stands for indexer.weights_proj).
std::vector<std::string> fp8_modules_to_not_convert(const ModelConfig& config);

/// The patterns of modules that the NVFP4 form leaves in BF16 (156 for the published config), sorted as
/// strings with the MTP layer's last.
std::vector<std::string> nvfp4_ignored_modules(const ModelConfig& config);

/// What a checkpoint's small files say about its stored form, for planning before any shard is there.
struct DeclaredForm {
  CheckpointFormat format = CheckpointFormat::bf16;
  std::string method;  // quantization_config.quant_method: "fp8", "modelopt", "compressed-tensors"; or empty
  bool fp8_cache = false;  // hf_quant_config.json or quantization_config ask for an FP8 key-value cache
};

/// Reads config.json, and hf_quant_config.json if it is there, in `folder` (or the config.json `folder`
/// itself). Throws unsupported for a quantisation that no checkpoint of this model has.
DeclaredForm declared_form(const std::filesystem::path& folder);

}  // namespace glint
