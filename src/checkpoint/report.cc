#include "checkpoint/report.h"

#include <array>
#include <cstdio>

#include "base/error.h"

namespace glint {

namespace {

/// Parameters as papers count them: every stored number but the router's selection bias.
int64_t parameters(const ModelConfig& config, int64_t layers) {
  int64_t sum = 0;
  for (const ModelTensor& tensor : model_tensors(config)) {
    if (tensor.layer < layers && tensor.role != TensorRole::vector_f32) sum += element_count(tensor.shape);
  }
  return sum;
}

/// Without an exponent where people would write none.
std::string number_text(double number) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.12g", number);
  return text.data();
}

std::string layers_line(const ModelConfig& config, const char* label,
                        bool (*wanted)(const ModelConfig&, int64_t)) {
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (wanted(config, layer)) layers.push_back(layer);
  }
  return cat("  ", label, layers.size(), ": ", ranges_text(layers), "\n");
}

}  // namespace

std::string grouped_digits(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t left =
        digits.size() - i;  // a comma stands before each full group of three, but not after the sign
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string ranges_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    const int64_t step = i + 1 < numbers.size() ? numbers[i + 1] - numbers[i] : 0;
    while (last + 1 < numbers.size() && numbers[last + 1] - numbers[last] == step) ++last;
    if (step != 1 && last < i + 2) last = i;  // two numbers are no progression
    text += cat(text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += cat("-", numbers[last]);
    if (last > i && step > 1) text += cat(" step ", step);
    i = last + 1;
  }
  return text.empty() ? "none" : text;
}

std::string config_report(const ModelConfig& c) {
  std::string eos;
  for (const int32_t id : c.eos_token_id) eos += cat(eos.empty() ? "" : ", ", id);
  const auto on = [](bool value) { return value ? "true" : "false"; };
  return cat("model       glm_moe_dsa, vocab_size ", c.vocab_size, ", hidden_size ", c.hidden_size,
             ", max_position_embeddings ", c.max_position_embeddings, ", rms_norm_eps ", c.rms_norm_eps, "\n",
             "parameters  ", grouped_digits(parameters(c, c.layers_with_mtp())), ", without the MTP layer ",
             grouped_digits(parameters(c, c.num_hidden_layers)), "\n", "attention   ", c.num_attention_heads,
             " heads, q_lora_rank ", c.q_lora_rank, ", kv_lora_rank ", c.kv_lora_rank, ", qk_nope_head_dim ",
             c.qk_nope_head_dim, ", qk_rope_head_dim ", c.qk_rope_head_dim, ", v_head_dim ", c.v_head_dim,
             ", rope_theta ", number_text(c.rope_theta), "\n", "indexer     ", c.index_n_heads, " heads of ",
             c.index_head_dim, ", index_topk ", c.index_topk, ", indexer_rope_interleave ",
             on(c.indexer_rope_interleave), ", index_share_for_mtp_iteration ",
             on(c.index_share_for_mtp_iteration), "\n", "experts     ", c.n_routed_experts,
             " routed of width ", c.moe_intermediate_size, ", ", c.num_experts_per_tok, " per token, ",
             c.n_shared_experts, " shared, n_group ", c.n_group, ", topk_group ", c.topk_group,
             ", norm_topk_prob ", on(c.norm_topk_prob), ", routed_scaling_factor ", c.routed_scaling_factor,
             "; dense width ", c.intermediate_size, "\n", "tokens      eos ", eos,
             c.pad_token_id < 0 ? std::string("; no pad") : cat("; pad ", c.pad_token_id), "\n");
}

std::string layer_report(const ModelConfig& c) {
  std::string text = cat("layers      ", c.num_hidden_layers, " decoder layers");
  text += c.has_mtp() ? cat(" and the MTP layer ", c.num_hidden_layers, " (sparse, own indexer)\n")
                      : ", no MTP layer\n";
  text += layers_line(c, "full indexer    ",
                      [](const ModelConfig& m, int64_t layer) { return m.has_indexer(layer); });
  text += layers_line(c, "shared indexer  ",
                      [](const ModelConfig& m, int64_t layer) { return !m.has_indexer(layer); });
  text += layers_line(c, "dense           ",
                      [](const ModelConfig& m, int64_t layer) { return !m.is_sparse(layer); });
  text += layers_line(c, "sparse          ",
                      [](const ModelConfig& m, int64_t layer) { return m.is_sparse(layer); });
  return text;
}

std::string tensor_report(const TensorCounts& counts) {
  std::string text;
  std::array<char, 128> line{};
  for (const auto& [dtype, row] : counts.by_dtype) {
    (void)std::snprintf(line.data(), line.size(), "  %-10s %10s tensors %22s bytes\n",
                        std::string(dtype_name(dtype)).c_str(), grouped_digits(row.tensors).c_str(),
                        grouped_digits(row.bytes).c_str());
    text += line.data();
  }
  const TensorCounts::Row total = counts.total();
  return cat("tensors\n", text, "  ", grouped_digits(total.tensors), " tensors, ",
             grouped_digits(total.bytes), " bytes\n");
}

}  // namespace glint
