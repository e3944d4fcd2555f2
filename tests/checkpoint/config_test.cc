#include "checkpoint/config.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/file.h"
#include "base/json.h"
#include "support/expect_error.h"

namespace glint {
namespace {

const std::filesystem::path kData = GLINT_TEST_DATA;

Json published() {
  return parse_json(read_file(kData / "glm-5.3-config.json"), "glm-5.3-config.json");
}
Json micro() {
  return parse_json(read_file(kData / "goldens/micro/config.json"), "micro");
}

ModelConfig parse(const Json& config) {
  return parse_model_config(config.dump(), "config.json");
}

std::vector<int64_t> full_layers(const ModelConfig& config) {
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (config.has_indexer(layer)) layers.push_back(layer);
  }
  return layers;
}

/// The published schedule, as the architecture lists it.
std::vector<int64_t> published_full_layers() {
  std::vector<int64_t> layers = {0, 1};
  for (int64_t layer = 2; layer <= 74; layer += 4) layers.push_back(layer);
  return layers;
}

TEST(Config, ReadsThePublishedFile) {
  const ModelConfig c = load_model_config(kData / "glm-5.3-config.json");
  EXPECT_EQ(c.vocab_size, 154880);
  EXPECT_EQ(c.hidden_size, 6144);
  EXPECT_EQ(c.num_hidden_layers, 78);
  EXPECT_EQ(c.num_nextn_predict_layers, 1);
  EXPECT_EQ(c.intermediate_size, 12288);
  EXPECT_EQ(c.moe_intermediate_size, 2048);
  EXPECT_EQ(c.max_position_embeddings, 1048576);
  EXPECT_EQ(c.num_attention_heads, 64);
  EXPECT_EQ(c.q_lora_rank, 2048);
  EXPECT_EQ(c.kv_lora_rank, 512);
  EXPECT_EQ(c.qk_nope_head_dim, 192);
  EXPECT_EQ(c.qk_rope_head_dim, 64) << "head_dim (192 in the file) must not touch it";
  EXPECT_EQ(c.qk_head_dim(), 256);
  EXPECT_EQ(c.v_head_dim, 256);
  EXPECT_EQ(c.rope_theta, 8e6);
  EXPECT_EQ(c.rms_norm_eps, 1e-5F);
  EXPECT_EQ(c.index_n_heads, 32);
  EXPECT_EQ(c.index_head_dim, 128);
  EXPECT_EQ(c.index_topk, 2048);
  EXPECT_TRUE(c.indexer_rope_interleave);
  EXPECT_TRUE(c.index_share_for_mtp_iteration);
  EXPECT_EQ(c.n_routed_experts, 256);
  EXPECT_EQ(c.num_experts_per_tok, 8);
  EXPECT_EQ(c.n_shared_experts, 1);
  EXPECT_EQ(c.n_group, 1);
  EXPECT_EQ(c.topk_group, 1);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_EQ(c.routed_scaling_factor, 2.5F);
  EXPECT_EQ(c.eos_token_id, (std::vector<int32_t>{154820, 154827, 154829}));
  EXPECT_EQ(c.pad_token_id, 154820);
  EXPECT_EQ(full_layers(c), published_full_layers());
  EXPECT_EQ(full_layers(c).size(), 21U);
  for (int64_t layer = 0; layer < 78; ++layer) EXPECT_EQ(c.is_sparse(layer), layer >= 3);
  EXPECT_TRUE(c.is_sparse(78));
  EXPECT_TRUE(c.has_indexer(78));
}

TEST(Config, ScheduleSources) {
  Json config = published();
  config.erase("indexer_types");
  EXPECT_EQ(full_layers(parse(config)), published_full_layers())
      << "index_topk_freq and index_skip_topk_offset";
  std::string letters(78, 'S');
  for (const int64_t layer : published_full_layers()) letters[static_cast<size_t>(layer)] = 'F';
  config.erase("index_topk_freq");
  config.erase("index_skip_topk_offset");
  EXPECT_EQ(full_layers(parse(config)).size(), 78U) << "the class defaults 1 and 2 make every layer full";
  config["index_topk_pattern"] = letters;
  EXPECT_EQ(full_layers(parse(config)), published_full_layers()) << "pattern as a string";
  config["index_topk_pattern"] = Json::array();
  for (const char letter : letters) config["index_topk_pattern"].push_back(std::string(1, letter));
  EXPECT_EQ(full_layers(parse(config)), published_full_layers()) << "pattern as a list";
  config["index_topk_pattern"] = "F" + std::string(77, 'S');
  EXPECT_EQ(full_layers(parse(config)), (std::vector<int64_t>{0}));
  config["indexer_types"] = published()["indexer_types"];
  EXPECT_EQ(full_layers(parse(config)), published_full_layers()) << "indexer_types wins over the pattern";
  config = published();
  config.erase("indexer_types");
  config["index_skip_topk_offset"] = 1;
  EXPECT_EQ(full_layers(parse(config))[1], 4);
  EXPECT_EQ(full_layers(parse(config))[2], 8);
}

TEST(Config, HonouredValues) {
  Json config = micro();
  config["norm_topk_prob"] = false;
  config["n_shared_experts"] = 0;
  config["n_group"] = 4;
  config["topk_group"] = 2;
  config["num_nextn_predict_layers"] = 0;
  config["index_share_for_mtp_iteration"] = false;
  config["eos_token_id"] = 7;
  config["pad_token_id"] = nullptr;
  config["head_dim"] = "nonsense";  // never looked at
  config["some_new_key"] = {1, 2, 3};
  const ModelConfig c = parse(config);
  EXPECT_FALSE(c.norm_topk_prob);
  EXPECT_EQ(c.n_shared_experts, 0);
  EXPECT_EQ(c.n_group, 4);
  EXPECT_EQ(c.topk_group, 2);
  EXPECT_FALSE(c.has_mtp());
  EXPECT_EQ(c.layers_with_mtp(), 8);
  EXPECT_FALSE(c.index_share_for_mtp_iteration);
  EXPECT_EQ(c.eos_token_id, std::vector<int32_t>{7});
  EXPECT_EQ(c.pad_token_id, -1);
}

TEST(Config, MissingKeysTakeTheirDefaults) {
  Json config = micro();
  for (const char* const key :
       {"num_nextn_predict_layers", "indexer_rope_interleave", "norm_topk_prob", "n_shared_experts",
        "n_group", "topk_group", "routed_scaling_factor", "rms_norm_eps", "max_position_embeddings",
        "moe_router_dtype", "rope_interleave", "mlp_layer_types", "pad_token_id", "head_dim", "qk_head_dim",
        "num_key_value_heads", "scoring_func"}) {
    config.erase(key);
  }
  config.erase("rope_parameters");
  config["rope_theta"] = 10000.0;
  const ModelConfig c = parse(config);
  EXPECT_FALSE(c.has_mtp());
  EXPECT_FALSE(c.indexer_rope_interleave);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_EQ(c.n_shared_experts, 1);
  EXPECT_EQ(c.routed_scaling_factor, 2.5F);
  EXPECT_EQ(c.rms_norm_eps, 1e-5F);
  EXPECT_EQ(c.max_position_embeddings, 202752);
  EXPECT_EQ(c.rope_theta, 10000.0);
  EXPECT_FALSE(c.is_sparse(2));
  EXPECT_TRUE(c.is_sparse(3));
}

TEST(Config, MlpLayerTypesAlone) {
  Json config = micro();
  config.erase("first_k_dense_replace");
  config["mlp_layer_types"] = {"sparse", "dense", "sparse", "dense", "dense", "dense", "dense", "sparse"};
  const ModelConfig c = parse(config);
  EXPECT_TRUE(c.is_sparse(0));
  EXPECT_FALSE(c.is_sparse(1));
  EXPECT_TRUE(c.is_sparse(7));
}

TEST(Config, NumExpertsWins) {
  Json config = micro();
  config["num_experts"] = 4;
  EXPECT_EQ(parse(config).n_routed_experts, 4);
}

TEST(Config, AcceptsTheQuantizedPublishedForms) {
  Json config = published();
  config["quantization_config"] = {{"quant_method", "fp8"},
                                   {"fmt", "e4m3"},
                                   {"activation_scheme", "dynamic"},
                                   {"weight_block_size", {128, 128}},
                                   {"modules_to_not_convert", {"lm_head"}}};
  EXPECT_NO_THROW((void)parse(config));
  // What the published NVFP4 export adds and lacks.
  config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
  config["bos_token_id"] = 0;
  config["mlp_bias"] = false;
  config["num_experts"] = 256;
  config["layer_types"] = Json::array();
  for (int i = 0; i < 78; ++i) config["layer_types"].push_back("deepseek_sparse_attention");
  config["transformers_version"] = "5.11.0";
  config.erase("moe_router_dtype");
  EXPECT_NO_THROW((void)parse(config));
  config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                   {"format", "nvfp4-pack-quantized"}};
  EXPECT_NO_THROW((void)parse(config));
}

struct Mutation {
  const char* key;
  Json value;  // discarded: the key is erased
  std::vector<std::string> expected;
};

TEST(Config, RefusesMutatedValuesByName) {
  const Json erased = Json::parse("", nullptr, false);
  ASSERT_TRUE(erased.is_discarded());
  Json shared_first = micro()["indexer_types"];
  shared_first[0] = "shared";
  Json dense_last = micro()["mlp_layer_types"];
  dense_last[7] = "dense";
  const std::vector<Mutation> mutations = {
      {"model_type", "glm5_next", {"\"glm5_next\"", "\"glm_moe_dsa\""}},
      {"model_type", erased, {"missing"}},
      {"architectures", {"Glm5NextForCausalLM"}, {"Glm5NextForCausalLM", "GlmMoeDsaForCausalLM"}},
      {"architectures", "GlmMoeDsaForCausalLM", {"GlmMoeDsaForCausalLM"}},
      {"dtype", "float16", {"\"float16\"", "\"bfloat16\""}},
      {"torch_dtype", "float32", {"\"float32\"", "\"bfloat16\""}},
      {"hidden_act", "gelu", {"\"gelu\"", "\"silu\""}},
      {"attention_bias", true, {"true", "false"}},
      {"attention_dropout", 0.1, {"0.1", "expected 0"}},
      {"mlp_bias", true, {"true", "false"}},
      {"scoring_func", "softmax", {"\"softmax\"", "\"sigmoid\""}},
      {"topk_method", "greedy", {"\"greedy\"", "\"noaux_tc\""}},
      {"moe_router_dtype", "bfloat16", {"\"bfloat16\"", "\"float32\""}},
      {"moe_layer_freq", 2, {"is 2", "expected 1"}},
      {"rope_interleave", false, {"false", "true"}},
      {"tie_word_embeddings", true, {"true", "false"}},
      {"ep_size", 8, {"is 8", "expected 1"}},
      {"pretraining_tp", 2, {"is 2", "expected 1"}},
      {"rope_scaling", {{"type", "yarn"}, {"factor", 40}}, {"yarn", "null"}},
      {"rope_parameters",
       {{"rope_theta", 8000000}, {"rope_type", "yarn"}},
       {"rope_parameters.rope_type", "\"yarn\""}},
      {"rope_parameters", {{"rope_type", "default"}}, {"rope_theta", "missing"}},
      {"rope_parameters",
       {{"rope_theta", 1e6}, {"partial_rotary_factor", 0.5}},
       {"partial_rotary_factor", "0.5"}},
      {"rope_parameters", {{"rope_theta", -1}}, {"rope_theta", "-1"}},
      {"rope_parameters", 8000000, {"8000000", "an object"}},
      {"rope_theta", 10000, {"10000", "8e+06"}},
      {"sliding_window", 4096, {"4096", "null"}},
      {"vocab_size", 0, {"is 0"}},
      {"vocab_size", "320", {"\"320\"", "whole number"}},
      {"vocab_size", 320.0, {"320.0", "whole number"}},
      {"vocab_size", 1e30, {"whole number"}},
      {"hidden_size", -64, {"-64"}},
      {"hidden_size", 18446744073709551615U, {"18446744073709551615"}},
      {"hidden_size", erased, {"missing"}},
      {"hidden_size", nullptr, {"null"}},
      {"num_hidden_layers", 0, {"is 0"}},
      {"num_hidden_layers", 7, {"indexer_types", "8 entries, expected 7"}},
      {"num_hidden_layers", 100000, {"100000", "1024"}},
      {"num_nextn_predict_layers", 2, {"is 2", "from 0 to 1"}},
      {"num_nextn_predict_layers", true, {"true", "whole number"}},
      {"intermediate_size", 0, {"is 0"}},
      {"moe_intermediate_size", 1073741824, {"1073741824"}},
      {"max_position_embeddings", 0, {"is 0"}},
      {"rms_norm_eps", 0, {"is 0", "above 0"}},
      {"rms_norm_eps", 1e-60, {"1e-60", "above 0"}},
      {"rms_norm_eps", "1e-5", {"\"1e-5\"", "a number"}},
      {"num_attention_heads", 0, {"is 0"}},
      {"num_key_value_heads", 1, {"is 1", "num_attention_heads"}},
      {"qk_head_dim", 64, {"is 64", "expected 40"}},
      {"qk_rope_head_dim", 15, {"is 15", "even"}},
      {"q_lora_rank", erased, {"missing"}},
      {"q_lora_rank", nullptr, {"null"}},
      {"kv_lora_rank", false, {"false"}},
      {"v_head_dim", 0, {"is 0"}},
      {"index_head_dim", 8, {"is 8", "qk_rope_head_dim = 16"}},
      {"index_topk", 0, {"is 0"}},
      {"index_n_heads", erased, {"missing"}},
      {"index_topk_freq", 0, {"is 0"}},
      {"index_skip_topk_offset", -1, {"-1"}},
      {"indexer_rope_interleave", "yes", {"\"yes\"", "true or false"}},
      {"index_share_for_mtp_iteration", 1, {"is 1", "true or false"}},
      {"indexer_types", {"full"}, {"1 entries, expected 8"}},
      {"indexer_types", "full", {"\"full\"", "a list"}},
      {"indexer_types",
       {"full", "full", "full", "none", "shared", "shared", "full", "shared"},
       {"indexer_types[3]", "\"none\"", "\"full\" or \"shared\""}},
      {"indexer_types", shared_first, {"layer 0 to be full"}},
      {"index_topk_pattern", "FFFS", {"FFFS", "8 letters"}},
      {"index_topk_pattern", "FFFSSSXS", {"FFFSSSXS", "8 letters"}},
      {"index_topk_pattern", {1, 0, 0, 0, 0, 0, 0, 0}, {"index_topk_pattern[0]", "\"F\" or \"S\""}},
      {"layer_types", {"full_attention"}, {"1 entries, expected 8"}},
      {"mlp_layer_types", {"dense", "dense"}, {"2 entries, expected 8"}},
      {"mlp_layer_types", dense_last, {"first_k_dense_replace", "layer 7"}},
      {"first_k_dense_replace", 4, {"is 4", "layer 3 is sparse"}},
      {"first_k_dense_replace", 9, {"is 9", "from 0 to 8"}},
      {"n_routed_experts", 1, {"is 1", "from 2"}},
      {"n_routed_experts", 1000000, {"1000000"}},
      {"num_experts", "8", {"\"8\""}},
      {"num_experts_per_tok", 9, {"is 9", "at most 8"}},
      {"num_experts_per_tok", 0, {"is 0"}},
      {"n_shared_experts", -1, {"-1"}},
      {"n_group", 3, {"is 3", "divisor"}},
      {"n_group", 8, {"is 8", "at least 2 experts"}},
      {"topk_group", 2, {"is 2", "n_group = 1"}},
      {"norm_topk_prob", 1, {"is 1", "true or false"}},
      {"routed_scaling_factor", 0, {"is 0", "above 0"}},
      {"eos_token_id", erased, {"missing"}},
      {"eos_token_id", Json::array(), {"[]", "at least one"}},
      {"eos_token_id", {300, 320}, {"[300,320]", "0 to 319"}},
      {"eos_token_id", {300, "x"}, {"token ids"}},
      {"eos_token_id", -1, {"-1"}},
      {"pad_token_id", 320, {"is 320", "319"}},
      {"quantization_config", 8, {"is 8", "an object"}},
      {"quantization_config",
       {{"quant_method", "awq"}},
       {"quantization_config.quant_method", "\"awq\"", "fp8"}},
      {"quantization_config", {{"bits", 4}}, {"quantization_config.quant_method", "missing"}},
      {"quantization_config",
       {{"quant_method", "fp8"}, {"weight_block_size", {64, 64}}},
       {"[64,64]", "[128,128]"}},
      {"quantization_config", {{"quant_method", "fp8"}}, {"weight_block_size", "missing"}},
      {"quantization_config",
       {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}, {"activation_scheme", "static"}},
       {"activation_scheme", "static"}},
      {"use_cache", "maybe", {"\"maybe\"", "true or false"}},
      {"initializer_range", "x", {"\"x\""}},
      {"transformers_version", 5, {"is 5", "a string"}},
  };
  EXPECT_NO_THROW((void)parse(micro()));
  EXPECT_GE(mutations.size(), 20U);
  for (const Mutation& mutation : mutations) {
    Json config = micro();
    if (mutation.value.is_discarded()) {
      config.erase(mutation.key);
    } else {
      config[mutation.key] = mutation.value;
    }
    std::vector<std::string> expected = mutation.expected;
    expected.emplace_back("config.json: ");
    if (mutation.key != std::string("num_hidden_layers") && mutation.key != std::string("mlp_layer_types")) {
      expected.emplace_back(mutation.key);
    }
    SCOPED_TRACE(std::string(mutation.key) + " = " + config.value(mutation.key, Json()).dump());
    expect_error([&] { (void)parse(config); }, expected);
  }
}

TEST(Config, RefusesPublishedValuesOfOtherModels) {
  // Keys that only exist in other families must not slip through as "unknown".
  Json config = micro();
  config["rope_scaling"] = {{"rope_type", "yarn"}};
  expect_error([&] { (void)parse(config); }, {"rope_scaling"});
}

TEST(Config, RefusesTextThatIsNoConfig) {
  const auto parse_text = [](const std::string& text) { (void)parse_model_config(text, "config.json"); };
  expect_error([&] { parse_text(""); }, {"config.json", "JSON"});
  expect_error([&] { parse_text("[]"); }, {"config.json", "object"});
  expect_error([&] { parse_text("{\"model_type\": NaN}"); }, {"config.json", "JSON"});
  expect_error([&] { parse_text("{\"a\":1,\"a\":2}"); }, {"config.json", "\"a\"", "twice"});
  expect_error([&] { parse_text(std::string(100000, '[')); }, {"config.json", "nested"});
  expect_error([&] { parse_text("{}"); }, {"config.json", "model_type", "missing"});
  expect_error([&] { (void)load_model_config(kData / "no-such-file.json"); }, {"no-such-file.json"});
}

}  // namespace
}  // namespace glint
