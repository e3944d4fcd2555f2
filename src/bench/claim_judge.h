// Whether an answer meets what an example asks: the rules of tools/nano/judge.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "bench/claim_examples.h"

namespace glint::bench {

struct ModelAnswer {
  std::string content;
  std::optional<Json> call;  // {"name", "arguments"} of the first call; `arguments` is its object
  bool ended = false;        // by itself: neither cut nor failed
};

/// By example.task: tool_call wants exactly that call and no text; arithmetic the last number of the text;
/// copy the text, white space around it apart; json a document of that value; all others the value as a word
/// of its own in the text. All but tool_call want no call.
bool answer_is_right(const ClaimExample& example, const ModelAnswer& answer);

/// True if `value` stands in `text` without a letter, digit or '_' beside it, and without a '.' in front of
/// it: 12 is not in 3120, nor in 0.12. Or if it is all of the text.
bool holds_word(std::string_view text, std::string_view value);

}  // namespace glint::bench
