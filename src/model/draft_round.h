// The drafts that follow one step of the model: a first pass of the MTP layer over all rows of the step, then
// passes of one row a sequence that reuse the first pass's index lists (architecture: MTP, drafting several
// tokens with one layer).
#pragma once

#include <optional>

#include "model/model.h"

namespace glint {

class DraftRound {
 public:
  /// `final_hidden` are the step's; it must outlive the round. Memory is taken from the arena of `ops` inside
  /// the scope that is open now, and given back in reverse by the destructor.
  DraftRound(const Model& model, ops::Ops& ops, ops::Activation final_hidden)
      : model_(model), ops_(ops), final_hidden_(final_hidden), round_scope_(std::in_place, ops.arena()) {}

  /// The first pass: row i takes the hidden state of row source[i] of the step. The rows in step.logits_rows
  /// draft. Returns their logits, [logits_count][vocab_size], valid until the next call.
  float* first(const Step& step, const int32_t* source, const ModelCaches& caches);

  /// A later pass: row i continues the source[i]-th of the rows that drafted in the pass before.
  float* later(const Step& step, const int32_t* source, const ModelCaches& caches);

 private:
  /// Both of a kind: a pass reads one and fills the other.
  struct Kept {
    ops::Activation hidden[2];  // [drafting rows, hidden_size]
    ops::Selection lists[2];    // [drafting rows, index_topk]
  };

  const Model& model_;
  ops::Ops& ops_;
  ops::Activation final_hidden_;
  std::optional<ops::Arena::Scope> round_scope_;
  std::optional<ops::Arena::Scope> pass_scope_;
  Kept kept_;
  int newest_lists_ = 0;  // the newest hidden states are always hidden[0]
};

}  // namespace glint
