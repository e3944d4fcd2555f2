#include "model/model.h"

namespace glint {

using ops::Activation;
using ops::Arena;
using ops::Floats;
using ops::Ops;
using ops::Selection;

Selection Model::new_selection(Ops& ops, int64_t rows) const {
  return {.lists = ops.ints(rows, config().index_topk), .count = ops.ints(rows, 1).data};
}

void Model::run_indexer(Ops& ops, const LayerWeights& layer, int64_t index, Activation normed, Activation q_c,
                        const Step& step, const ModelCaches& caches, Selection& selection,
                        Probe* probe) const {
  const ModelConfig& c = config();
  const IndexerWeights& w = layer.indexer;
  const int64_t rows = normed.rows;
  const Arena::Scope scope(ops.arena());
  const Activation q = ops.activation(rows, c.index_n_heads * c.index_head_dim);
  const Activation k = ops.activation(rows, c.index_head_dim);
  const Floats head_weights = ops.floats(rows, c.index_n_heads);
  // The indexer's query starts from the normalised query latent, its key and its head weights from the
  // layer's input.
  ops.linear(q_c, w.wq_b, q);
  ops.linear(normed, w.wk, k);
  ops.linear(normed, w.weights_proj, head_weights);
  if (rules_.index_norm_subtracts_mean) {
    ops.layer_norm(k, w.k_norm_weight.data(), w.k_norm_bias.data(), rules_.index_norm_eps, k);
  } else {
    ops.rms_norm(k, w.k_norm_weight.data(), rules_.index_norm_eps, k);
  }
  // Rotated values come first in an index head, unlike in an attention head.
  ops.rope(q, c.index_n_heads, c.index_head_dim, 0, c.qk_rope_head_dim, c.rope_theta, rules_.indexer_rope,
           step.rows.position);
  ops.rope(k, 1, c.index_head_dim, 0, c.qk_rope_head_dim, c.rope_theta, rules_.indexer_rope,
           step.rows.position);
  const ops::CacheLayer& keys = caches.index[static_cast<size_t>(index)];
  ops.write_cache(k, step.rows, keys);
  ops.select(q, head_weights, rules_.index_scale, step.rows, keys, c.index_n_heads, c.index_topk, selection);
  if (probe != nullptr) probe->selection(index, ops, rows, selection);
}

void Model::attention(Ops& ops, const LayerWeights& layer, int64_t index, Activation x, const Step& step,
                      const ModelCaches& caches, bool with_indexer, Selection& selection,
                      Probe* probe) const {
  const ModelConfig& c = config();
  const int64_t rows = x.rows;
  const int64_t heads = c.num_attention_heads;
  const Arena::Scope scope(ops.arena());

  const Activation normed = ops.activation(rows, c.hidden_size);
  ops.rms_norm(x, layer.input_layernorm.data(), c.rms_norm_eps, normed);

  const Activation q_c = ops.activation(rows, c.q_lora_rank);
  ops.linear(normed, layer.q_a_proj, q_c);
  ops.rms_norm(q_c, layer.q_a_layernorm.data(), rules_.latent_norm_eps, q_c);

  // One row of the cache: the normalised latent, then the rotated key that all heads share (which is not
  // normalised).
  const Activation row = ops.activation(rows, c.kv_lora_rank + c.qk_rope_head_dim);
  ops.linear(normed, layer.kv_a_proj, row);
  if (rules_.cache_normed_latent) {
    const Activation latent = ops.columns(row, 0, c.kv_lora_rank);
    ops.rms_norm(latent, layer.kv_a_layernorm.data(), rules_.latent_norm_eps, latent);
  }
  ops.rope(row, 1, row.cols, c.kv_lora_rank, c.qk_rope_head_dim, c.rope_theta, rules_.rope,
           step.rows.position);
  const ops::CacheLayer& cache = caches.latent[static_cast<size_t>(index)];
  ops.write_cache(row, step.rows, cache);

  if (with_indexer) run_indexer(ops, layer, index, normed, q_c, step, caches, selection, probe);

  const Activation absorbed = ops.activation(rows, heads * row.cols);
  {
    const Arena::Scope query_scope(ops.arena());
    const Activation q = ops.activation(rows, heads * c.qk_head_dim());
    ops.linear(q_c, layer.q_b_proj, q);
    ops.rope(q, heads, c.qk_head_dim(), c.qk_nope_head_dim, c.qk_rope_head_dim, c.rope_theta, rules_.rope,
             step.rows.position);
    ops.absorb_query(q, layer.kv_b_proj, heads, c.qk_nope_head_dim, c.qk_rope_head_dim, c.v_head_dim,
                     absorbed);
  }
  const Activation o_latent = ops.activation(rows, heads * c.kv_lora_rank);
  ops.sparse_attention(absorbed, step.rows, selection, cache, heads, c.kv_lora_rank, rules_.softmax_scale,
                       o_latent);
  const Activation o = ops.activation(rows, heads * c.v_head_dim);
  ops.expand_value(o_latent, layer.kv_b_proj, heads, c.qk_nope_head_dim, c.v_head_dim, o);
  // `normed` has served its purpose; its memory takes the projection.
  ops.linear(o, layer.o_proj, normed);
  ops.add(normed, x);
}

void Model::moe(Ops& ops, const LayerWeights& layer, int64_t index, Activation normed, Floats y,
                Probe* probe) const {
  const ModelConfig& c = config();
  const Floats logits = ops.floats(normed.rows, c.n_routed_experts);
  const ops::Ints experts = ops.ints(normed.rows, c.num_experts_per_tok);
  const Floats factors = ops.floats(normed.rows, c.num_experts_per_tok);
  ops.linear(normed, layer.router, logits);
  ops.choose_experts(logits, layer.e_score_correction_bias.data(), rules_.route, experts);
  if (probe != nullptr) probe->experts_chosen(index, ops, experts);
  ops.weigh_experts(logits, layer.e_score_correction_bias.data(), rules_.route, experts, factors);
  if (probe != nullptr) probe->experts_weighed(index, ops, experts, factors);
  ops.experts(normed, experts, factors, layer.experts, y);
}

void Model::mlp(Ops& ops, const LayerWeights& layer, int64_t index, Activation x, Probe* probe) const {
  const ModelConfig& c = config();
  const Arena::Scope scope(ops.arena());
  const Activation normed = ops.activation(x.rows, c.hidden_size);
  ops.rms_norm(x, layer.post_attention_layernorm.data(), c.rms_norm_eps, normed);
  const Floats sum = ops.floats(x.rows, c.hidden_size);
  const bool sparse = !layer.experts.empty();
  if (sparse) moe(ops, layer, index, normed, sum, probe);
  if (!layer.gate_proj.empty()) {  // the dense MLP, or the shared experts, which are neither scaled nor gated
    const Activation gate = ops.activation(x.rows, layer.gate_proj.rows);
    const Activation up = ops.activation(x.rows, layer.up_proj.rows);
    ops.linear(normed, layer.gate_proj, gate);
    ops.linear(normed, layer.up_proj, up);
    ops.swiglu(gate, up, gate);
    const Floats down = sparse ? ops.floats(x.rows, c.hidden_size) : sum;
    ops.linear(gate, layer.down_proj, down);
    if (sparse) ops.add(down, sum);
  }
  ops.add(sum, x);
}

Floats Model::head(Ops& ops, const Step& step, Activation hidden) const {
  const Floats logits = ops.floats(step.logits_count, config().vocab_size);
  const Arena::Scope scope(ops.arena());
  const Activation wanted = ops.activation(step.logits_count, hidden.cols);
  ops.gather_rows(hidden, step.logits_rows, wanted);
  ops.linear(wanted, weights_.lm_head, logits);
  return logits;
}

StepResult Model::forward(Ops& ops, const Step& step, const ModelCaches& caches, Probe* probe) const {
  const ModelConfig& c = config();
  const Activation x = ops.activation(step.rows.rows, c.hidden_size);
  {
    const Arena::Scope scope(ops.arena());
    Selection selection = new_selection(ops, step.rows.rows);
    ops.embed(step.tokens, weights_.embed_tokens, x);
    for (int64_t index = 0; index < c.num_hidden_layers; ++index) {
      const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
      // A shared layer attends to what the nearest full layer below chose for the same rows in this same
      // step.
      const bool full = rules_.index_source[static_cast<size_t>(index)] == index;
      if (probe != nullptr) probe->layer_input(index, ops, x);
      attention(ops, layer, index, x, step, caches, full, selection, probe);
      mlp(ops, layer, index, x, probe);
      if (probe != nullptr) probe->layer_output(index, ops, x);
    }
  }
  ops.rms_norm(x, weights_.norm.data(), c.rms_norm_eps, x);
  return {.final_hidden = x, .logits = head(ops, step, x)};
}

StepResult Model::forward_mtp(Ops& ops, const Step& step, Activation previous, const ModelCaches& caches,
                              const Selection* given, Selection* chosen, Probe* probe) const {
  const ModelConfig& c = config();
  const MtpWeights& mtp = weights_.mtp;
  const int64_t rows = step.rows.rows;
  const int64_t index = c.num_hidden_layers;
  const Activation x = ops.activation(rows, c.hidden_size);
  const Activation carried = rules_.mtp_carries_normed_hidden ? x : ops.activation(rows, c.hidden_size);
  Selection selection = given != nullptr ? *given : new_selection(ops, rows);
  if (chosen != nullptr) *chosen = selection;
  {
    const Arena::Scope scope(ops.arena());
    const Activation pair = ops.activation(rows, 2 * c.hidden_size);
    const Activation embedding = ops.columns(pair, 0, c.hidden_size);
    ops.embed(step.tokens, weights_.embed_tokens, embedding);
    ops.rms_norm(embedding, mtp.enorm.data(), c.rms_norm_eps, embedding);
    ops.rms_norm(previous, mtp.hnorm.data(), c.rms_norm_eps, ops.columns(pair, c.hidden_size, c.hidden_size));
    ops.linear(pair, mtp.eh_proj, x);
  }
  attention(ops, mtp.layer, index, x, step, caches, given == nullptr, selection, probe);
  mlp(ops, mtp.layer, index, x, probe);
  if (!rules_.mtp_carries_normed_hidden) ops.copy(x, carried);
  ops.rms_norm(x, mtp.shared_head_norm.data(), c.rms_norm_eps, x);
  return {.final_hidden = carried, .logits = head(ops, step, x)};
}

}  // namespace glint
