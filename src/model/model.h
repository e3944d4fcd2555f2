// The forward pass of glm_moe_dsa, written once in terms of operations (sections 2 and 3 of the
// architecture).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/rules.h"
#include "model/weights.h"
#include "ops/ops.h"

namespace glint {

/// Every layer's slice of the paged cache; `index` is empty (base null, width 0) on layers without an
/// indexer. The MTP layer stands last. While planning, bases are null.
struct ModelCaches {
  std::vector<ops::CacheLayer> latent;  // [layers_with_mtp]
  std::vector<ops::CacheLayer> index;   // [layers_with_mtp]
};

/// One step: T rows of one or more sequences.
struct Step {
  const int32_t* tokens = nullptr;       // [T]
  ops::RowMap rows;                      // where they stand; rows.rows == T
  const int32_t* logits_rows = nullptr;  // [logits_count] rows whose logits are wanted, in this order
  int64_t logits_count = 0;
};

/// Lives in the arena scope that encloses the call.
struct StepResult {
  ops::Activation final_hidden;  // [T, hidden_size] after the last norm
  ops::Floats logits;            // [logits_count, vocab_size]
};

/// Sees, and may replace, what stands between the layers, through `Ops` (the views are the device's). Used by
/// traces and tests; the serving loop passes none.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void layer_input(int64_t /*layer*/, ops::Ops&, ops::Activation /*x*/) {}
  virtual void layer_output(int64_t /*layer*/, ops::Ops&, ops::Activation /*x*/) {}
  /// After the indexer of `layer` chose, for `rows` rows.
  virtual void selection(int64_t /*layer*/, ops::Ops&, int64_t /*rows*/, const ops::Selection&) {}
  /// Before the experts' weights are taken.
  virtual void experts_chosen(int64_t /*layer*/, ops::Ops&, ops::Ints /*experts*/) {}
  virtual void experts_weighed(int64_t /*layer*/, ops::Ops&, ops::Ints /*experts*/, ops::Floats /*weights*/) {
  }
};

class Model {
 public:
  Model(ModelWeights weights, ForwardRules rules) : weights_(std::move(weights)), rules_(std::move(rules)) {}

  [[nodiscard]] const ModelConfig& config() const { return weights_.config; }
  [[nodiscard]] const ForwardRules& rules() const { return rules_; }
  [[nodiscard]] const ModelWeights& weights() const { return weights_; }

  /// Runs the decoder layers over the step's rows; their cache rows are written, then read. A row sees its
  /// own sequence's positions up to its own.
  StepResult forward(ops::Ops& ops, const Step& step, const ModelCaches& caches,
                     Probe* probe = nullptr) const;

  /// One pass of the MTP layer. Row at position p takes the embedding of the token at p + 1 (`step.tokens`
  /// holds those) and the hidden state of position p: `previous` is the model's final hidden for the first
  /// pass of a round and `final_hidden` of the result for later ones. With `given` the indexer is skipped, no
  /// index key is written and the rows attend to the given lists; otherwise `chosen`, if not null, receives
  /// the lists. The result's final_hidden is what the next pass takes; logits are the model's head on the
  /// normed state.
  StepResult forward_mtp(ops::Ops& ops, const Step& step, ops::Activation previous, const ModelCaches& caches,
                         const ops::Selection* given, ops::Selection* chosen, Probe* probe = nullptr) const;

 private:
  void attention(ops::Ops& ops, const LayerWeights& layer, int64_t index, ops::Activation x, const Step& step,
                 const ModelCaches& caches, bool run_indexer, ops::Selection& selection, Probe* probe) const;
  void run_indexer(ops::Ops& ops, const LayerWeights& layer, int64_t index, ops::Activation normed,
                   ops::Activation q_c, const Step& step, const ModelCaches& caches,
                   ops::Selection& selection, Probe* probe) const;
  void mlp(ops::Ops& ops, const LayerWeights& layer, int64_t index, ops::Activation x, Probe* probe) const;
  void moe(ops::Ops& ops, const LayerWeights& layer, int64_t index, ops::Activation normed, ops::Floats y,
           Probe* probe) const;
  ops::Selection new_selection(ops::Ops& ops, int64_t rows) const;
  ops::Floats head(ops::Ops& ops, const Step& step, ops::Activation hidden) const;

  ModelWeights weights_;
  ForwardRules rules_;
};

}  // namespace glint
