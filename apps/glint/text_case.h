// Lines in the format of the text cases: {"id", "request", "raw_output" | "chunks" | "token_bytes_hex", ...}.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace glint {

/// Reads the line, runs `handle` on it and prints its result with the line's id in front. A refused request,
/// or a line that is no such object, becomes {"error": {"message", "param"}}.
std::string answer_case(std::string_view line, std::string_view place,
                        const std::function<OrderedJson(const OrderedJson&)>& handle);

/// What the model wrote, as tokens, in the groups in which they arrive.
struct CaseTokens {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::vector<TokenId>> groups;
};

/// Tokens of `raw_output` (one group), `chunks` (a group each; a tag that is cut by a chunk's end comes with
/// the next one) or `token_bytes_hex` (a token and group each). GLM's tags are atomic tokens; with
/// "literal_tags" the tool tags are made of ordinary ones. Without a `model` tokenizer other text is cut into
/// pieces of a made-up vocabulary.
CaseTokens case_tokens(const OrderedJson& line, const std::shared_ptr<const Tokenizer>& model);

}  // namespace glint
