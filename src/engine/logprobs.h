// How likely the tokens of an answer, or of a prompt, were.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace glint {

/// What is reported: of the model's own logits, or of what the request's rules have made of them (bias,
/// masks, penalties, temperature, min_p, top_k, top_p; what they exclude has -inf); as log probabilities, or
/// plain logits.
enum class LogprobsMode : uint8_t { raw_logprobs, raw_logits, processed_logprobs, processed_logits };

/// Throws bad_input for other names than those of the enum.
LogprobsMode parse_logprobs_mode(std::string_view name);

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

/// One row a token. Only ids that stand for a token take part: the vocabulary's padding has no probability.
struct Logprobs {
  int64_t top = 0;                   // alternatives a row
  std::vector<TokenLogprob> chosen;  // the tokens themselves
  std::vector<int64_t> ranks;        // of those: 1 is the most likely; of equals the lowest id comes first
  std::vector<TokenLogprob>
      alternatives;  // [chosen.size()][top], the most likely first, the chosen one included

  [[nodiscard]] bool empty() const { return chosen.empty(); }
  void clear();
};

/// For SamplingParams: every id.
inline constexpr int32_t kAllLogprobs = -1;

}  // namespace glint
