#include "bench/claim_study.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "engine/cpu_device.h"

namespace glint::bench {

namespace {

using ops::Activation;

constexpr int64_t kRowsPerText = 24;

/// Watches one pass over a whole text.
class StudyProbe final : public Probe {
 public:
  StudyProbe(CpuDevice& device, const ModelWeights& weights, const ForwardRules& rules)
      : device_(device), weights_(weights), rules_(rules) {
    const auto layers = static_cast<size_t>(weights.config.num_hidden_layers);
    mass_.assign(layers, 0);
    loads_.assign(layers, std::vector<int64_t>(static_cast<size_t>(weights.config.n_routed_experts), 0));
  }

  void begin_text(int64_t tokens) {
    rows_.clear();
    const int64_t first = weights_.config.index_topk;  // the first position whose list leaves something out
    const int64_t count = std::min(kRowsPerText, tokens - first);
    for (int64_t i = 0; i < count; ++i) {
      rows_.push_back(
          static_cast<int32_t>(first + (tokens - 1 - first) * i / std::max<int64_t>(1, count - 1)));
    }
    rows_seen_ += static_cast<int64_t>(rows_.size());
    tokens_ += tokens;
  }

  void layer_input(int64_t /*layer*/, ops::Ops& ops, Activation x) override {
    input_.resize(rows_.size() * static_cast<size_t>(x.cols));
    std::vector<float> all(static_cast<size_t>(x.rows * x.cols));
    ops.download(x, all.data());
    for (size_t i = 0; i < rows_.size(); ++i) {
      std::copy_n(all.data() + rows_[i] * x.cols, x.cols, input_.data() + static_cast<int64_t>(i) * x.cols);
    }
  }

  /// Kept for the shared layers above.
  void selection(int64_t /*layer*/, ops::Ops& /*ops*/, int64_t /*rows*/, const ops::Selection& selection) override {
    lists_.clear();
    for (const int32_t row : rows_) {
      const int32_t* list = selection.lists.data + row * selection.lists.cols;
      lists_.emplace_back(list, list + selection.count[row]);
    }
  }

  void experts_chosen(int64_t layer, ops::Ops& /*ops*/, ops::Ints experts) override {
    for (int64_t i = 0; i < experts.rows * experts.cols; ++i) {
      ++loads_[static_cast<size_t>(layer)][static_cast<size_t>(experts.data[i])];
    }
  }

  /// The layer's keys are in the cache now. (In the MLP's scratch memory, which is free again.)
  void layer_output(int64_t layer, ops::Ops& ops, Activation /*x*/) override {
    if (rows_.empty()) return;
    const std::vector<float> queries = absorbed_queries(weights_.layers[static_cast<size_t>(layer)], ops);
    const auto heads = weights_.config.num_attention_heads;
    const int64_t width = static_cast<int64_t>(queries.size() / rows_.size()) / heads;
    double sum = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (int64_t head = 0; head < heads; ++head) {
        sum += mass_inside(layer, queries.data() + (static_cast<int64_t>(i) * heads + head) * width, i);
      }
    }
    mass_[static_cast<size_t>(layer)] += sum / static_cast<double>(heads);
  }

  [[nodiscard]] ModelStudy result() const;

 private:
  /// [rows_][heads][kv_lora_rank + qk_rope_head_dim], by the steps of Model::attention.
  std::vector<float> absorbed_queries(const LayerWeights& layer, ops::Ops& ops) const {
    const ModelConfig& c = weights_.config;
    const auto rows = static_cast<int64_t>(rows_.size());
    const ops::Arena::Scope scope(ops.arena());
    const Activation x = ops.activation(rows, c.hidden_size);
    ops.upload(input_.data(), x);
    ops.rms_norm(x, layer.input_layernorm.data(), c.rms_norm_eps, x);
    const Activation latent = ops.activation(rows, c.q_lora_rank);
    ops.linear(x, layer.q_a_proj, latent);
    ops.rms_norm(latent, layer.q_a_layernorm.data(), rules_.latent_norm_eps, latent);
    const Activation q = ops.activation(rows, c.num_attention_heads * c.qk_head_dim());
    ops.linear(latent, layer.q_b_proj, q);
    ops.rope(q, c.num_attention_heads, c.qk_head_dim(), c.qk_nope_head_dim, c.qk_rope_head_dim, c.rope_theta,
             rules_.rope, rows_.data());
    const Activation absorbed =
        ops.activation(rows, c.num_attention_heads * (c.kv_lora_rank + c.qk_rope_head_dim));
    ops.absorb_query(q, layer.kv_b_proj, c.num_attention_heads, c.qk_nope_head_dim, c.qk_rope_head_dim,
                     c.v_head_dim, absorbed);
    std::vector<float> out(static_cast<size_t>(absorbed.rows * absorbed.cols));
    ops.download(absorbed, out.data());
    return out;
  }

  double mass_inside(int64_t layer, const float* query, size_t row) const {
    const ops::CacheLayer& cache = device_.cache().views().latent[static_cast<size_t>(layer)];
    const int64_t positions = rows_[row] + 1;
    std::vector<double> scores(static_cast<size_t>(positions));
    for (int64_t p = 0; p < positions; ++p) {
      // One sequence whose page i is the cache's page i; float32 rows.
      const std::byte* bytes =
          cache.base + p / ops::kPageTokens * cache.page_bytes + p % ops::kPageTokens * cache.row_bytes;
      const auto* key = static_cast<const float*>(static_cast<const void*>(bytes));
      scores[static_cast<size_t>(p)] =
          rules_.softmax_scale * std::inner_product(query, query + cache.width, key, 0.0F);
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double all = 0;
    for (double& score : scores) all += score = std::exp(score - largest);
    double inside = 0;
    for (const int32_t p : lists_[row]) inside += scores[static_cast<size_t>(p)];
    return inside / all;
  }

  CpuDevice& device_;
  const ModelWeights& weights_;
  const ForwardRules& rules_;
  std::vector<int32_t> rows_;  // positions that are looked at
  std::vector<float> input_;   // [rows_][hidden_size] of the layer
  std::vector<std::vector<int32_t>> lists_;
  std::vector<double> mass_;  // sums over rows
  std::vector<std::vector<int64_t>> loads_;
  int64_t rows_seen_ = 0;
  int64_t tokens_ = 0;
};

ModelStudy StudyProbe::result() const {
  ModelStudy study;
  study.tokens = tokens_;
  study.mass_rows = rows_seen_;
  for (const double sum : mass_)
    study.mass.push_back(rows_seen_ == 0 ? 0 : sum / static_cast<double>(rows_seen_));
  study.load_least = INFINITY;
  for (const std::vector<int64_t>& layer : loads_) {
    const auto all = std::accumulate(layer.begin(), layer.end(), int64_t{0});
    if (all == 0) continue;  // a dense layer
    const double even = static_cast<double>(all) / static_cast<double>(layer.size());
    const auto [least, most] = std::minmax_element(layer.begin(), layer.end());
    study.load_least = std::min(study.load_least, static_cast<double>(*least) / even);
    study.load_most = std::max(study.load_most, static_cast<double>(*most) / even);
  }
  if (study.load_most == 0) study.load_least = 0;
  return study;
}

}  // namespace

ModelStudy study_model(const std::filesystem::path& folder, const std::vector<std::vector<TokenId>>& texts,
                       int threads, Isa isa, const std::function<void(size_t)>& progress) {
  int64_t longest = 1;
  for (const auto& text : texts) longest = std::max(longest, static_cast<int64_t>(text.size()));
  const auto checkpoint = Checkpoint::open(folder);
  const ForwardRules rules = rules_of(checkpoint->config());
  const ModelWeights weights = bind_weights(checkpoint);
  const int64_t page_count = (longest + ops::kPageTokens - 1) / ops::kPageTokens;
  CpuDevice device(std::make_shared<const Model>(weights, rules), {.dtype = ops::ComputeDType::float32,
                                                                   .kv_cache_dtype = KvCacheDType::float32,
                                                                   .isa = isa,
                                                                   .threads = threads,
                                                                   .rows_max = longest,
                                                                   .logits_max = 1,
                                                                   .context_max = longest,
                                                                   .pages = page_count});
  StudyProbe probe(device, weights, rules);
  std::vector<int32_t> pages(static_cast<size_t>(page_count));
  std::iota(pages.begin(), pages.end(), 0);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto tokens = static_cast<int64_t>(texts[i].size());
    std::vector<int32_t> positions(texts[i].size());
    std::iota(positions.begin(), positions.end(), 0);
    const std::vector<int32_t> sequences(texts[i].size(), 0);
    const auto last = static_cast<int32_t>(tokens - 1);
    const Step step{.tokens = texts[i].data(),
                    .rows = {.rows = tokens,
                             .position = positions.data(),
                             .sequence = sequences.data(),
                             .pages = pages.data(),
                             .pages_stride = page_count,
                             .context_max = tokens},
                    .logits_rows = &last,
                    .logits_count = 1};
    const ops::Arena::Scope scope(device.arena());
    probe.begin_text(tokens);
    device.model().forward(device.ops(), step, device.cache().views(), &probe);
    progress(i + 1);
  }
  return probe.result();
}

}  // namespace glint::bench
