// What one answer took and how its drafts fared, for its `metrics` field: vLLM's --enable-per-request-metrics
// and
// --per-request-spec-decode-metrics.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/serving_metrics.h"

namespace glint {

/// none: not shown; summary: counts; detailed: those of every step, too.
enum class DraftMetrics { none, summary, detailed };
/// Throws bad_input in argparse's words.
DraftMetrics parse_draft_metrics(std::string_view name);

struct AnswerMetricsOptions {
  bool timings = false;
  DraftMetrics drafts = DraftMetrics::none;
  [[nodiscard]] bool any() const { return timings || drafts != DraftMetrics::none; }
};

/// Counts the drafts of one choice. A draft behind the end of its sequence counts as not confirmed.
class DraftTally {
 public:
  void step(const StepOutput& output, DraftMetrics shown);
  /// `drafts_max`: the server's drafts of a step. Shares of nothing are null.
  [[nodiscard]] OrderedJson json(DraftMetrics shown, int64_t drafts_max) const;

 private:
  int64_t steps_ = 0, drafted_ = 0, accepted_ = 0;
  std::array<int64_t, kSpeculativeTokensMax + 1> accepted_in_{};  // [j]: steps that confirmed exactly j
  std::vector<int64_t> drafted_by_step_, accepted_by_step_;       // DraftMetrics::detailed alone
};

/// The object, of an answer with one choice that has ended. Times are in ms: of the first token from the
/// start of its first step (the wait in the queue is a member of its own), of generation from the first to
/// the last token. What there is too little of to say is null.
OrderedJson answer_metrics(const RequestMeter& meter, const DraftTally& drafts,
                           const AnswerMetricsOptions& options, int64_t drafts_max);

}  // namespace glint
