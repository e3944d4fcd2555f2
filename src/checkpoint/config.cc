#include "checkpoint/config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/config_reader.h"

namespace glint {

namespace {

// Limits far above any published model, so that products of a few of these numbers fit in 64 bits.
constexpr int64_t kWidthMax = int64_t{1} << 20;
constexpr int64_t kHeadsMax = int64_t{1} << 12;
constexpr int64_t kLayersMax = 1024;
constexpr int64_t kExpertsMax = 4096;
constexpr int64_t kPositionsMax = int64_t{1} << 30;
constexpr size_t kConfigBytesMax = size_t{16} << 20;

// What the configuration class of transformers assumes when a key is missing.
constexpr int64_t kMaxPositionEmbeddingsDefault = 202752;
constexpr double kRmsNormEpsDefault = 1e-5;
constexpr double kRoutedScalingFactorDefault = 2.5;
constexpr int64_t kIndexTopkFreqDefault = 1;
constexpr int64_t kIndexSkipTopkOffsetDefault = 2;

/// Keys with one value in every published checkpoint, for which nothing else is implemented.
void check_fixed_keys(const ConfigReader& read) {
  read.expect("model_type", "glm_moe_dsa");
  read.expect("architectures", Json::array({"GlmMoeDsaForCausalLM"}));
  read.expect_if_present("dtype", "bfloat16");
  read.expect_if_present("torch_dtype", "bfloat16");
  read.expect_if_present("hidden_act", "silu");
  read.expect_if_present("attention_bias", false);
  read.expect_if_present("attention_dropout", 0);
  read.expect_if_present("mlp_bias", false);
  read.expect_if_present("scoring_func", "sigmoid");
  read.expect_if_present("topk_method", "noaux_tc");
  read.expect_if_present("moe_router_dtype", "float32");
  read.expect_if_present("moe_layer_freq", 1);
  read.expect_if_present("rope_interleave", true);
  read.expect_if_present("tie_word_embeddings", false);
  read.expect_if_present("ep_size", 1);
  read.expect_if_present("pretraining_tp", 1);
  if (read.has("rope_scaling"))
    read.refuse(ErrorKind::unsupported, "rope_scaling", "null: only plain RoPE is implemented");
  if (read.has("sliding_window")) read.refuse(ErrorKind::unsupported, "sliding_window", "null");
}

void read_sizes(const ConfigReader& read, ModelConfig& c) {
  c.vocab_size = read.integer("vocab_size", 1, int64_t{1} << 24);
  c.hidden_size = read.integer("hidden_size", 1, kWidthMax);
  c.num_hidden_layers = read.integer("num_hidden_layers", 1, kLayersMax);
  c.num_nextn_predict_layers = read.integer_or("num_nextn_predict_layers", 0, 0, 1);
  c.intermediate_size = read.integer("intermediate_size", 1, kWidthMax);
  c.moe_intermediate_size = read.integer("moe_intermediate_size", 1, kWidthMax);
  c.max_position_embeddings =
      read.integer_or("max_position_embeddings", kMaxPositionEmbeddingsDefault, 1, kPositionsMax);
  c.rms_norm_eps = static_cast<float>(read.positive_or("rms_norm_eps", kRmsNormEpsDefault));
}

void read_attention(const ConfigReader& read, ModelConfig& c) {
  c.num_attention_heads = read.integer("num_attention_heads", 1, kHeadsMax);
  c.q_lora_rank = read.integer("q_lora_rank", 1, kWidthMax);
  c.kv_lora_rank = read.integer("kv_lora_rank", 1, kWidthMax);
  c.qk_nope_head_dim = read.integer("qk_nope_head_dim", 1, kHeadsMax);
  c.qk_rope_head_dim = read.integer("qk_rope_head_dim", 2, kHeadsMax);
  c.v_head_dim = read.integer("v_head_dim", 1, kHeadsMax);
  if (c.qk_rope_head_dim % 2 != 0) read.refuse(ErrorKind::bad_input, "qk_rope_head_dim", "an even number");
  // Nominal: MLA caches one latent for all heads. `head_dim` is ignored on purpose: files disagree on its
  // meaning.
  if (read.integer_or("num_key_value_heads", c.num_attention_heads, 1, kHeadsMax) != c.num_attention_heads) {
    read.refuse(ErrorKind::unsupported, "num_key_value_heads", c.num_attention_heads,
                " (num_attention_heads)");
  }
  if (read.integer_or("qk_head_dim", c.qk_head_dim(), 1, 2 * kHeadsMax) != c.qk_head_dim()) {
    read.refuse(ErrorKind::bad_input, "qk_head_dim", c.qk_head_dim(),
                " (qk_nope_head_dim + qk_rope_head_dim)");
  }
}

void read_rope(const ConfigReader& read, const Json& object, std::string_view what, ModelConfig& c) {
  const Json* const parameters = read.find("rope_parameters");
  if (parameters == nullptr) {
    c.rope_theta = read.positive("rope_theta");
    return;
  }
  if (!parameters->is_object()) read.refuse(ErrorKind::bad_input, "rope_parameters", "an object");
  const ConfigReader rope(*parameters, what, "rope_parameters.");
  rope.expect_if_present("rope_type", "default");
  rope.expect_if_present("type", "default");
  rope.expect_if_present("partial_rotary_factor", 1);
  rope.expect_if_present("factor", 1);
  const bool flat = !rope.has("rope_theta") && object.contains("rope_theta");
  c.rope_theta = flat ? read.positive("rope_theta") : rope.positive("rope_theta");
  if (read.has("rope_theta") && read.positive("rope_theta") != c.rope_theta) {
    read.refuse(ErrorKind::bad_input, "rope_theta", c.rope_theta, " (rope_parameters.rope_theta)");
  }
}

/// index_topk_pattern: one letter a layer, "F" full or "S" shared, as a string or a list.
std::vector<bool> parse_pattern(const ConfigReader& read, int64_t layers) {
  std::string letters;
  if (const Json& pattern = *read.find("index_topk_pattern"); pattern.is_string()) {
    letters = pattern.get<std::string>();
    if (letters.size() != static_cast<size_t>(layers) ||
        letters.find_first_not_of("FS") != std::string::npos) {
      read.refuse(ErrorKind::bad_input, "index_topk_pattern", layers, " letters F or S (num_hidden_layers)");
    }
  } else {
    for (const std::string& letter : read.strings("index_topk_pattern", layers, {"F", "S"}))
      letters += letter;
  }
  std::vector<bool> full;
  full.reserve(letters.size());
  for (const char letter : letters) full.push_back(letter == 'F');
  return full;
}

std::vector<bool> layers_that_are(const std::vector<std::string>& types, std::string_view wanted) {
  std::vector<bool> is;
  is.reserve(types.size());
  for (const std::string& type : types) is.push_back(type == wanted);
  return is;
}

void read_indexer(const ConfigReader& read, ModelConfig& c) {
  c.index_n_heads = read.integer("index_n_heads", 1, kHeadsMax);
  c.index_head_dim = read.integer("index_head_dim", 1, kHeadsMax);
  c.index_topk = read.integer("index_topk", 1, kPositionsMax);
  c.indexer_rope_interleave = read.boolean_or("indexer_rope_interleave", false);
  c.index_share_for_mtp_iteration = read.boolean_or("index_share_for_mtp_iteration", true);
  if (c.index_head_dim < c.qk_rope_head_dim) {
    read.refuse(ErrorKind::bad_input, "index_head_dim", "at least qk_rope_head_dim = ", c.qk_rope_head_dim);
  }

  const int64_t freq = read.integer_or("index_topk_freq", kIndexTopkFreqDefault, 1, kLayersMax);
  const int64_t offset =
      read.integer_or("index_skip_topk_offset", kIndexSkipTopkOffsetDefault, 0, kLayersMax);
  std::vector<bool> pattern;
  if (read.has("index_topk_pattern")) pattern = parse_pattern(read, c.num_hidden_layers);
  const char* key = "index_topk_freq";
  if (read.has("indexer_types")) {
    key = "indexer_types";
    c.indexer_full = layers_that_are(read.strings(key, c.num_hidden_layers, {"full", "shared"}), "full");
  } else if (!pattern.empty()) {
    key = "index_topk_pattern";
    c.indexer_full = pattern;
  } else {
    for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
      c.indexer_full.push_back(std::max<int64_t>(layer - offset + 1, 0) % freq == 0);
    }
  }
  if (!c.indexer_full[0]) {
    read.refuse(ErrorKind::bad_input, key, "layer 0 to be full: a shared layer needs a full one before it");
  }
}

void read_layers(const ConfigReader& read, ModelConfig& c) {
  if (read.has("layer_types"))
    (void)read.strings("layer_types", c.num_hidden_layers, {"deepseek_sparse_attention"});
  if (!read.has("mlp_layer_types")) {
    const int64_t dense = read.integer("first_k_dense_replace", 0, c.num_hidden_layers);
    for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) c.mlp_sparse.push_back(layer >= dense);
    return;
  }
  const auto types = read.strings("mlp_layer_types", c.num_hidden_layers, {"dense", "sparse"});
  c.mlp_sparse = layers_that_are(types, "sparse");
  if (!read.has("first_k_dense_replace")) return;
  // Engines differ in which of the two they believe, so they must say the same.
  const int64_t dense = read.integer("first_k_dense_replace", 0, c.num_hidden_layers);
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    if (c.is_sparse(layer) != (layer >= dense)) {
      read.refuse(ErrorKind::bad_input, "first_k_dense_replace", "the same as mlp_layer_types, where layer ",
                  layer, " is ", types[static_cast<size_t>(layer)]);
    }
  }
}

void read_experts(const ConfigReader& read, ModelConfig& c) {
  // num_experts is what some exports write; transformers lets it win over n_routed_experts.
  const char* const key = read.has("num_experts") ? "num_experts" : "n_routed_experts";
  c.n_routed_experts = read.integer(key, 2, kExpertsMax);
  (void)read.integer_or("n_routed_experts", c.n_routed_experts, 2, kExpertsMax);
  c.num_experts_per_tok = read.integer("num_experts_per_tok", 1, kExpertsMax);
  c.n_shared_experts = read.integer_or("n_shared_experts", 1, 0, kExpertsMax);
  c.n_group = read.integer_or("n_group", 1, 1, kExpertsMax);
  c.topk_group = read.integer_or("topk_group", 1, 1, kExpertsMax);
  c.norm_topk_prob = read.boolean_or("norm_topk_prob", true);
  c.routed_scaling_factor =
      static_cast<float>(read.positive_or("routed_scaling_factor", kRoutedScalingFactorDefault));
  if (c.n_routed_experts % c.n_group != 0 || c.n_routed_experts / c.n_group < 2) {
    read.refuse(ErrorKind::bad_input, "n_group", "a divisor of ", key, " = ", c.n_routed_experts,
                " with at least 2 experts a group");
  }
  if (c.topk_group > c.n_group)
    read.refuse(ErrorKind::bad_input, "topk_group", "at most n_group = ", c.n_group);
  const int64_t selectable = c.n_routed_experts / c.n_group * c.topk_group;
  if (c.num_experts_per_tok > selectable) {
    read.refuse(ErrorKind::bad_input, "num_experts_per_tok", "at most ", selectable,
                ", the experts in topk_group = ", c.topk_group, " of n_group = ", c.n_group, " groups");
  }
}

void read_token_ids(const ConfigReader& read, ModelConfig& c) {
  const Json* const eos = read.find("eos_token_id");
  const int64_t id_max = c.vocab_size - 1;
  if (eos != nullptr && eos->is_array()) {
    for (const Json& id : *eos) {
      const bool legal = id.is_number_unsigned() && id.get<uint64_t>() <= static_cast<uint64_t>(id_max);
      if (!legal) read.refuse(ErrorKind::bad_input, "eos_token_id", "token ids from 0 to ", id_max);
      c.eos_token_id.push_back(id.get<int32_t>());
    }
    if (eos->empty()) read.refuse(ErrorKind::bad_input, "eos_token_id", "at least one token id");
  } else {
    c.eos_token_id.push_back(static_cast<int32_t>(read.integer("eos_token_id", 0, id_max)));
  }
  c.pad_token_id = static_cast<int32_t>(read.integer_or("pad_token_id", -1, 0, id_max));
}

/// The stored tensors decide how they are read; this refuses only what says that they mean something else.
void check_quantization(const ConfigReader& read, std::string_view what) {
  const Json* const config = read.find("quantization_config");
  if (config == nullptr) return;
  if (!config->is_object()) read.refuse(ErrorKind::bad_input, "quantization_config", "an object");
  const ConfigReader quantization(*config, what, "quantization_config.");
  const Json* const method = quantization.find("quant_method");
  if (method == nullptr || (*method != "fp8" && *method != "modelopt" && *method != "compressed-tensors")) {
    quantization.refuse(ErrorKind::unsupported, "quant_method",
                        R"("fp8", "modelopt" or "compressed-tensors")");
  }
  if (*method != "fp8") return;
  quantization.expect_if_present("fmt", "e4m3");
  quantization.expect_if_present("activation_scheme", "dynamic");
  quantization.expect("weight_block_size", Json::array({128, 128}));
}

/// Keys that change nothing here: a wrong type still says that the file is not what it seems.
void check_unused_keys(const ConfigReader& read) {
  (void)read.boolean_or("use_cache", true);
  (void)read.positive_or("initializer_range", 1);
  for (const char* const key : {"transformers_version", "_name_or_path"}) {
    const Json* const value = read.find(key);
    if (value != nullptr && !value->is_string()) read.refuse(ErrorKind::bad_input, key, "a string");
  }
}

}  // namespace

ModelConfig parse_model_config(std::string_view text, std::string_view what) {
  JsonLimits limits;
  limits.values_max = size_t{1} << 20;
  limits.refuse_duplicate_keys = true;
  const Json object = parse_json(text, what, limits);
  if (!object.is_object())
    fail(ErrorKind::bad_input, what, ": not a JSON object, expected a model's config.json");
  const ConfigReader read(object, what);
  ModelConfig config;
  check_fixed_keys(read);
  check_quantization(read, what);
  check_unused_keys(read);
  read_sizes(read, config);
  read_attention(read, config);
  read_rope(read, object, what, config);
  read_indexer(read, config);
  read_layers(read, config);
  read_experts(read, config);
  read_token_ids(read, config);
  return config;
}

ModelConfig load_model_config(const std::filesystem::path& path) {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "config.json" : path;
  return parse_model_config(read_file(file, kConfigBytesMax), file.string());
}

}  // namespace glint
