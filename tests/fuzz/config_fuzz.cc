// Arbitrary bytes as a config.json and as an index: either an error, or something that the code behind can
// trust.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/config.h"
#include "checkpoint/config_text.h"
#include "checkpoint/index.h"
#include "checkpoint/plan.h"
#include "checkpoint/quantization_config.h"
#include "checkpoint/report.h"

namespace {

constexpr int64_t kPlanLayersAndExpertsMax = 2000;  // larger plans are legal but slow

void require(bool condition, const char* promise) {
  if (condition) return;
  std::cerr << "broken: " << promise << "\n";
  std::abort();
}

template <class Action>
void run(const Action& action) {
  try {
    action();
  } catch (const glint::Error& error) {
    require(error.kind() != glint::ErrorKind::internal, error.what());
    require(std::string_view(error.what()).find('\n') == std::string_view::npos, "an error is one line");
  }
}

void check_plan(const glint::ModelConfig& config) {
  for (const auto format :
       {glint::CheckpointFormat::bf16, glint::CheckpointFormat::fp8, glint::CheckpointFormat::nvfp4}) {
    run([&] { require(glint::count_tensors(config, format).total().bytes > 0, "a plan has bytes"); });
  }
  run([&] { (void)(glint::config_report(config) + glint::layer_report(config)); });
  (void)glint::hf_quant_config(config);
}

void check_config(std::string_view text) {
  const glint::ModelConfig config = glint::parse_model_config(text, "fuzz");
  require(config.indexer_full.size() == static_cast<size_t>(config.num_hidden_layers),
          "one indexer type a layer");
  require(config.mlp_sparse.size() == static_cast<size_t>(config.num_hidden_layers), "one mlp type a layer");
  require(config.indexer_full[0], "layer 0 is full");
  require(config.index_head_dim >= config.qk_rope_head_dim && config.qk_rope_head_dim % 2 == 0, "RoPE fits");
  require(config.num_experts_per_tok <= config.n_routed_experts, "enough experts");
  for (const int32_t id : config.eos_token_id)
    require(id >= 0 && id < config.vocab_size, "eos ids are tokens");
  glint::Json with = glint::Json::parse(glint::set_json_member(text, "quantization_config", "[1]"));
  require(with.at("quantization_config") == glint::Json::array({1}), "a member can be set");
  glint::Json without = glint::Json::parse(glint::remove_json_member(text, "quantization_config"));
  with.erase("quantization_config");
  require(with == without, "other members stay");
  if (config.num_hidden_layers * config.n_routed_experts <= kPlanLayersAndExpertsMax) check_plan(config);
}

void check_index(std::string_view text) {
  const glint::CheckpointIndex index = glint::parse_checkpoint_index(text, "fuzz");
  for (const auto& [name, file] : index.tensors) {
    require(file < index.files.size(), "shard numbers exist");
    (void)glint::json_quoted(name);
  }
  for (const std::string& file : index.files)
    require(file.find('/') == std::string::npos, "shards stay in the folder");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  run([&] { check_config(text); });
  run([&] { check_index(text); });
  return 0;
}
