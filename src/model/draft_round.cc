#include "model/draft_round.h"

namespace glint {

namespace {

ops::Activation first_rows(ops::Activation x, int64_t rows) {
  return {x.data, rows, x.cols, x.stride};
}

ops::Selection first_rows(ops::Selection x, int64_t rows) {
  return {.lists = {x.lists.data, rows, x.lists.cols}, .count = x.count};
}

}  // namespace

float* DraftRound::first(const Step& step, const int32_t* source, const ModelCaches& caches) {
  const ModelConfig& config = model_.config();
  for (int i = 0; i < 2; ++i) {
    kept_.hidden[i] = ops_.activation(step.logits_count, config.hidden_size);
    kept_.lists[i] = {.lists = ops_.ints(step.logits_count, config.index_topk),
                      .count = ops_.ints(step.logits_count, 1).data};
  }
  pass_scope_.emplace(ops_.arena());
  const ops::Activation previous = ops_.activation(step.rows.rows, config.hidden_size);
  ops_.gather_rows(final_hidden_, source, previous);
  ops::Selection chosen;
  const StepResult result = model_.forward_mtp(ops_, step, previous, caches, nullptr, &chosen);
  ops_.gather_rows(result.final_hidden, step.logits_rows, kept_.hidden[0]);
  ops_.gather_selection(chosen, step.logits_rows, kept_.lists[0]);
  newest_lists_ = 0;
  return result.logits.data;
}

float* DraftRound::later(const Step& step, const int32_t* source, const ModelCaches& caches) {
  const int64_t rows = step.rows.rows;
  pass_scope_.reset();
  pass_scope_.emplace(ops_.arena());
  const ops::Activation previous = first_rows(kept_.hidden[1], rows);
  const ops::Selection lists = first_rows(kept_.lists[1 - newest_lists_], rows);
  ops_.gather_rows(kept_.hidden[0], source, previous);
  ops_.gather_selection(kept_.lists[newest_lists_], source, lists);
  newest_lists_ = 1 - newest_lists_;
  const bool share = model_.config().index_share_for_mtp_iteration;
  const StepResult result =
      model_.forward_mtp(ops_, step, previous, caches, share ? &lists : nullptr, nullptr);
  ops_.gather_rows(result.final_hidden, step.logits_rows, first_rows(kept_.hidden[0], step.logits_count));
  return result.logits.data;
}

}  // namespace glint
