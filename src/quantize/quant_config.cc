#include "quantize/quant_config.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/config_text.h"
#include "checkpoint/quantization_config.h"

namespace glint::quantize {

namespace {

constexpr const char* kKey = "quantization_config";

bool has_hf_file(Target target) {
  return target == Target::nvfp4_experts || target == Target::nvfp4_experts_fp8;
}

/// The value as indented text at a depth of one level.
std::string member_text(const OrderedJson& value) {
  std::string text;
  for (const char c : value.dump(2)) {
    text += c;
    if (c == '\n') text += "  ";
  }
  return text;
}

OrderedJson nvfp4_algorithm() {
  return {{"quant_algo", "NVFP4"}, {"group_size", 16}};
}

OrderedJson fp8_algorithm() {
  return {{"quant_algo", "FP8_PB_WO"}, {"weight_block_size", OrderedJson::array({128, 128})}};
}

/// Patterns with the form of what they match; the first that matches decides.
OrderedJson quantized_layers(const ModelConfig& config) {
  OrderedJson layers = OrderedJson::object();
  for (int64_t layer = 0; layer < config.layers_with_mtp(); ++layer) {
    const std::string prefix = cat("model.layers.", layer, ".");
    if (config.is_sparse(layer)) {
      layers[prefix + "mlp.experts.*"] =
          layer < config.num_hidden_layers ? nvfp4_algorithm() : fp8_algorithm();
    }
    layers[prefix + "*_proj*"] = fp8_algorithm();
    if (config.has_indexer(layer)) layers[prefix + "self_attn.indexer.w*"] = fp8_algorithm();
  }
  return layers;
}

OrderedJson mixed_config(const Plan& plan, const QuantizeOptions& options) {
  OrderedJson config = quantization_config(plan.config, CheckpointFormat::nvfp4);
  config["ignore"] = excluded_modules(plan, options);
  config["quant_algo"] = "MIXED_PRECISION";
  config["config_groups"]["group_0"]["targets"] = OrderedJson::array({"re:.*\\.mlp\\.experts\\..*"});
  config["quantized_layers"] = quantized_layers(plan.config);
  return config;
}

OrderedJson fp8_config(const Plan& plan, const QuantizeOptions& options) {
  OrderedJson config = quantization_config(plan.config, CheckpointFormat::fp8);
  config["modules_to_not_convert"] = excluded_modules(plan, options);
  return config;
}

OrderedJson quantization(const Plan& plan, const QuantizeOptions& options) {
  if (options.target == Target::fp8_block) return fp8_config(plan, options);
  OrderedJson config;
  if (options.target == Target::nvfp4_experts_fp8) {
    config = mixed_config(plan, options);
  } else {
    config = quantization_config(plan.config, CheckpointFormat::nvfp4);
    config["ignore"] = excluded_modules(plan, options);
  }
  if (options.kv_cache_hint == KvCacheHint::none) config.erase("kv_cache_scheme");
  return config;
}

}  // namespace

std::vector<std::string> excluded_modules(const Plan& plan, const QuantizeOptions& options) {
  if (options.target == Target::bf16) return {};
  if (options.target == Target::nvfp4_experts) {
    std::vector<std::string> patterns = nvfp4_ignored_modules(plan.config);
    patterns.insert(patterns.end(), options.exclude.begin(), options.exclude.end());
    return patterns;
  }
  std::vector<std::string> modules = fp8_modules_to_not_convert(plan.config);
  for (const Job& job : plan.jobs) {
    const bool projection = job.role == TensorRole::projection || job.role == TensorRole::routed_expert;
    if (projection && is_excluded(module_of(job.name), options.exclude))
      modules.push_back(module_of(job.name));
  }
  return modules;
}

std::string output_config_text(const Plan& plan, const QuantizeOptions& options) {
  if (options.target == Target::bf16) return remove_json_member(plan.config_text, kKey);
  return set_json_member(plan.config_text, kKey, member_text(quantization(plan, options)));
}

std::string hf_quant_config_text(const Plan& plan, const QuantizeOptions& options) {
  if (!has_hf_file(options.target)) return "";
  OrderedJson config = hf_quant_config(plan.config);
  OrderedJson& quantization = config["quantization"];
  if (options.kv_cache_hint == KvCacheHint::none) quantization["kv_cache_quant_algo"] = nullptr;
  quantization["exclude_modules"] = excluded_modules(plan, options);
  if (options.target == Target::nvfp4_experts_fp8) {
    quantization["quant_algo"] = "MIXED_PRECISION";
    quantization["quantized_layers"] = quantized_layers(plan.config);
  }
  return config.dump(4) + "\n";
}

}  // namespace glint::quantize
