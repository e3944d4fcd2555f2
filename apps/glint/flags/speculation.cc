#include "flags/speculation.h"

#include "base/error.h"
#include "server/serve_options.h"

namespace glint {

namespace {

/// SGLang's default for this family of models.
constexpr int64_t kStepsByDefault = 3;

int64_t chain_length(const ServeFlags& flags) {
  const auto& draft = flags.sglang_drafts;
  if (draft.topk.value_or(1) != 1) {
    fail(ErrorKind::bad_input, "argument --speculative-eagle-topk: ", *draft.topk,
         ": drafts are one chain, not a tree: 1 is possible");
  }
  const int64_t steps = draft.steps.value_or(draft.tokens ? *draft.tokens - 1 : kStepsByDefault);
  if (draft.tokens && *draft.tokens != steps + 1) {
    fail(ErrorKind::bad_input, "argument --speculative-num-draft-tokens: ", *draft.tokens,
         ": a chain of --speculative-num-steps ", steps, " has ", steps + 1,
         ", with the token it starts from");
  }
  if (steps < 1 || steps > kSpeculativeTokensMax) {
    fail(ErrorKind::bad_input, "argument --speculative-num-steps: ", steps, ": expected 1 to ",
         kSpeculativeTokensMax);
  }
  return steps;
}

}  // namespace

int64_t drafts_asked(const ServeFlags& flags) {
  const int64_t by_config = speculative_tokens(flags.speculative_config);
  const auto& draft = flags.sglang_drafts;
  if (draft.algorithm.empty()) {
    if (!draft.steps && !draft.topk && !draft.tokens) return by_config;
    fail(ErrorKind::bad_input,
         "argument --speculative-num-steps: numbers of drafting go with --speculative-algorithm");
  }
  const int64_t by_algorithm = chain_length(flags);
  if (by_config != 0 && by_config != by_algorithm) {
    fail(ErrorKind::bad_input, "argument --speculative-config: ", by_config,
         " drafts, --speculative-algorithm ", draft.algorithm, ": ", by_algorithm, ": give one of them");
  }
  return by_algorithm;
}

}  // namespace glint
