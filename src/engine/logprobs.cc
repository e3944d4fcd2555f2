#include "engine/logprobs.h"

#include "base/error.h"

namespace glint {

LogprobsMode parse_logprobs_mode(std::string_view name) {
  if (name == "raw_logprobs") return LogprobsMode::raw_logprobs;
  if (name == "raw_logits") return LogprobsMode::raw_logits;
  if (name == "processed_logprobs") return LogprobsMode::processed_logprobs;
  if (name == "processed_logits") return LogprobsMode::processed_logits;
  fail(ErrorKind::bad_input, "argument --logprobs-mode: invalid choice: '", name,
       "' (choose from raw_logprobs, raw_logits, processed_logprobs, processed_logits)");
}

void Logprobs::clear() {
  top = 0;
  chosen.clear();
  ranks.clear();
  alternatives.clear();
}

}  // namespace glint
