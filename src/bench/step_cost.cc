#include "bench/step_cost.h"

#include <algorithm>

namespace glint::bench {

namespace {

double number(int64_t value) {
  return static_cast<double>(value);
}

double weight_bytes(const Weight& w) {
  const double values = number(w.rows) * number(w.cols);
  switch (w.format) {
    case WeightFormat::f32:
      return values * 4;
    case WeightFormat::bf16:
      return values * 2;
    case WeightFormat::fp8_block:
      return values + 4 * number((w.rows + 127) / 128 * ((w.cols + 127) / 128));
    case WeightFormat::nvfp4:
      return values / 2 + values / 16;
  }
  return 0;
}

double products(const Weight& w) {
  return number(w.rows) * number(w.cols);
}

/// Reads the matrix once and multiplies it with `rows` rows.
void add_matrix(const Weight& w, double rows, StepCost& cost) {
  if (w.empty()) return;
  cost.bytes += weight_bytes(w);
  cost.multiply_adds += products(w) * rows;
}

void add_experts(const LayerWeights& layer, const std::set<int32_t>& chosen, double rows, int64_t per_token,
                 StepCost& cost) {
  if (layer.experts.empty()) return;
  for (const int32_t expert : chosen) {
    const ops::ExpertWeights& w = layer.experts[static_cast<size_t>(expert)];
    cost.bytes += weight_bytes(w.gate) + weight_bytes(w.up) + weight_bytes(w.down);
  }
  const ops::ExpertWeights& any = layer.experts.front();
  const double one = products(any.gate) + products(any.up) + products(any.down);
  cost.multiply_adds += one * rows * number(per_token);
}

}  // namespace

StepCost step_cost(const ModelWeights& weights, const std::vector<int64_t>& contexts, int64_t logits,
                   const ChosenExperts& chosen, int64_t index_key_bytes, int64_t latent_row_bytes) {
  const ModelConfig& c = weights.checkpoint->config();
  const double rows = number(static_cast<int64_t>(contexts.size()));
  StepCost cost;
  double context_sum = 0;   // keys that the indexer scores
  double selected_sum = 0;  // rows that attention reads
  for (const int64_t context : contexts) {
    if (context > c.index_topk) context_sum += number(context);
    selected_sum += number(std::min(context, c.index_topk));
  }
  for (int64_t index = 0; index < c.num_hidden_layers; ++index) {
    const LayerWeights& layer = weights.layers[static_cast<size_t>(index)];
    for (const Weight* w :
         {&layer.q_a_proj, &layer.q_b_proj, &layer.kv_a_proj, &layer.kv_b_proj, &layer.o_proj,
          &layer.indexer.wq_b, &layer.indexer.wk, &layer.indexer.weights_proj, &layer.router,
          &layer.gate_proj, &layer.up_proj, &layer.down_proj}) {
      add_matrix(*w, rows, cost);
    }
    add_experts(layer, chosen[static_cast<size_t>(index)], rows, c.num_experts_per_tok, cost);
    const int64_t width = c.kv_lora_rank + c.qk_rope_head_dim;
    cost.multiply_adds += number(c.num_attention_heads * (width + c.kv_lora_rank)) * selected_sum;
    cost.bytes += number(latent_row_bytes) * selected_sum;
    if (!c.has_indexer(index)) continue;
    cost.multiply_adds += number(c.index_n_heads * c.index_head_dim) * context_sum;
    cost.bytes += number(index_key_bytes) * context_sum;
  }
  add_matrix(weights.lm_head, number(logits), cost);
  return cost;
}

}  // namespace glint::bench
