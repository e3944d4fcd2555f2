#include "checkpoint/quantization_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace glint {

namespace {

// The revision of ModelOpt whose layout the NVFP4 files follow; loaders look for its name.
constexpr const char* kModelOptVersion = "0.46.0.dev65+g977d34dc3";

OrderedJson producer() {
  return {{"name", "modelopt"}, {"version", kModelOptVersion}};
}

OrderedJson four_bits() {
  return {{"dynamic", false}, {"num_bits", 4}, {"type", "float"}, {"group_size", 16}};
}

OrderedJson nvfp4_config(const ModelConfig& config) {
  const OrderedJson group = {{"input_activations", four_bits()},
                             {"weights", four_bits()},
                             {"targets", OrderedJson::array({"Linear"})}};
  return {{"config_groups", {{"group_0", group}}},
          {"ignore", nvfp4_ignored_modules(config)},
          {"quant_algo", "NVFP4"},
          {"kv_cache_scheme", {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}}},
          {"producer", producer()},
          {"quant_method", "modelopt"}};
}

/// The pattern for a layer without any quantised module: "model.layers.1.*" where "model.layers.1*" would
/// also match a quantised layer 1x.
std::string whole_layer_pattern(int64_t layer, const ModelConfig& config) {
  const std::string digits = std::to_string(layer);
  for (int64_t other = 0; other < config.num_hidden_layers; ++other) {
    if (config.is_sparse(other) && std::to_string(other).starts_with(digits)) {
      return cat("model.layers.", layer, ".*");
    }
  }
  return cat("model.layers.", layer, "*");
}

}  // namespace

std::vector<std::string> fp8_modules_to_not_convert(const ModelConfig& config) {
  std::vector<std::string> modules = {"lm_head", "model.embed_tokens", "model.norm"};
  for (int64_t layer = 0; layer < config.layers_with_mtp(); ++layer) {
    std::vector<std::string> parts = {"input_layernorm", "post_attention_layernorm",
                                      "self_attn.q_a_layernorm", "self_attn.kv_a_layernorm"};
    if (config.has_indexer(layer)) {
      parts.insert(parts.end(),
                   {"self_attn.indexers_proj", "self_attn.indexer.k_norm", "self_attn.indexer.k_norm.bias"});
    }
    if (config.is_sparse(layer)) parts.insert(parts.end(), {"mlp.gate", "mlp.gate.e_score_correction_bias"});
    if (layer >= config.num_hidden_layers)
      parts.insert(parts.end(), {"enorm", "hnorm", "eh_proj", "shared_head.norm"});
    for (const std::string& part : parts) modules.push_back(cat("model.layers.", layer, ".", part));
  }
  return modules;
}

std::vector<std::string> nvfp4_ignored_modules(const ModelConfig& config) {
  std::vector<std::string> patterns = {"lm_head", "model.embed_tokens"};
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_sparse(layer)) {
      patterns.push_back(whole_layer_pattern(layer, config));
      continue;
    }
    patterns.push_back(cat("model.layers.", layer, ".self_attn*"));
    if (config.n_shared_experts > 0) patterns.push_back(cat("model.layers.", layer, ".mlp.shared_experts*"));
  }
  std::sort(patterns.begin(), patterns.end());
  if (config.has_mtp()) patterns.push_back(cat("model.layers.", config.num_hidden_layers, "*"));
  return patterns;
}

OrderedJson quantization_config(const ModelConfig& config, CheckpointFormat format) {
  GLINT_CHECK(format != CheckpointFormat::bf16);
  if (format == CheckpointFormat::nvfp4) return nvfp4_config(config);
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", OrderedJson::array({128, 128})},
          {"modules_to_not_convert", fp8_modules_to_not_convert(config)}};
}

OrderedJson hf_quant_config(const ModelConfig& config) {
  return {{"producer", producer()},
          {"quantization",
           {{"quant_algo", "NVFP4"},
            {"kv_cache_quant_algo", "FP8"},
            {"group_size", 16},
            {"exclude_modules", nvfp4_ignored_modules(config)}}}};
}

namespace {

constexpr size_t kConfigBytesMax = size_t{16} << 20;

Json read_object(const std::filesystem::path& path) {
  Json object = parse_json(read_file(path, kConfigBytesMax), path.string());
  if (!object.is_object()) fail(ErrorKind::bad_input, path.string(), ": not a JSON object");
  return object;
}

bool says(const Json& object, const char* key, std::string_view value) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() && found->get<std::string>() == value;
}

bool asks_fp8_cache(const Json& quantization) {
  if (says(quantization, "kv_cache_quant_algo", "FP8")) return true;
  const auto scheme = quantization.find("kv_cache_scheme");
  if (scheme == quantization.end() || !scheme->is_object()) return false;
  const auto bits = scheme->find("num_bits");
  return bits != scheme->end() && *bits == 8;
}

}  // namespace

DeclaredForm declared_form(const std::filesystem::path& folder) {
  const bool is_folder = std::filesystem::is_directory(folder);
  const std::filesystem::path file = is_folder ? folder / "config.json" : folder;
  DeclaredForm form;
  const Json config = read_object(file);
  if (const auto found = config.find("quantization_config"); found != config.end() && found->is_object()) {
    const bool modelopt = says(*found, "quant_method", "modelopt");
    for (const char* method : {"fp8", "modelopt", "compressed-tensors"}) {
      if (says(*found, "quant_method", method)) form.method = method;
    }
    if (says(*found, "quant_method", "fp8")) {
      form.format = CheckpointFormat::fp8;
    } else if (modelopt && found->contains("quant_algo") && !says(*found, "quant_algo", "NVFP4") &&
               !says(*found, "quant_algo", "MIXED_PRECISION")) {
      fail(ErrorKind::unsupported, file.string(),
           ": quantization_config.quant_algo: ", found->at("quant_algo").dump(),
           R"(, expected "NVFP4" or "MIXED_PRECISION")");
    } else if (modelopt || says(*found, "quant_method", "compressed-tensors")) {
      form.format = CheckpointFormat::nvfp4;
    }
    form.fp8_cache = asks_fp8_cache(*found);
  }
  const std::filesystem::path beside = folder / "hf_quant_config.json";
  if (is_folder && std::filesystem::exists(beside)) {
    const Json quant = read_object(beside);
    const auto found = quant.find("quantization");
    form.fp8_cache =
        form.fp8_cache || asks_fp8_cache(found != quant.end() && found->is_object() ? *found : quant);
  }
  return form;
}

}  // namespace glint
