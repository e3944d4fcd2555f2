// Logprobs as the two endpoints show them.
#pragma once

#include <memory>
#include <span>

#include "base/json.h"
#include "engine/logprobs.h"
#include "server/generation_options.h"
#include "text/tokenizer.h"

namespace glint {

struct LogprobsStyle {
  Endpoint endpoint = Endpoint::chat;
  bool tokens_as_ids = false;       // "token_id:N" where a token's text would stand
  bool skip_special_tokens = true;  // as the answer's text is decoded: completions count its characters
};

/// Writes the tokens of one choice, in order.
///  - chat: {"content": [{token, logprob, bytes, top_logprobs: [{token, logprob, bytes}]}]}. `bytes` are the
///  token's own,
///    also of a part of a character, whose `token` is U+FFFD.
///  - completions: {text_offset, token_logprobs, tokens, top_logprobs}, lists of equal length. text_offset
///  counts the
///    characters (code points) that were complete before the token. top_logprobs maps texts to numbers, the
///    token itself first; of tokens with equal texts the likelier counts. null for a token without a
///    probability.
/// What is below -9999, minus infinity too, is -9999.
class LogprobsWriter {
 public:
  LogprobsWriter(std::shared_ptr<const Tokenizer> tokenizer, LogprobsStyle style);

  /// The next tokens with at most `top` alternatives each; null if there are none.
  [[nodiscard]] OrderedJson write(const Logprobs& logprobs, int64_t top);
  /// The next token, of which no probability is known: the first one of a prompt (completions).
  [[nodiscard]] OrderedJson write_unknown(TokenId token);

 private:
  [[nodiscard]] std::string text_of(TokenId id) const;
  [[nodiscard]] OrderedJson chat_entry(const TokenLogprob& token) const;
  void add_completion(OrderedJson& out, TokenId token, OrderedJson logprob, OrderedJson top);

  std::shared_ptr<const Tokenizer> tokenizer_;
  LogprobsStyle style_;
  StreamDetokenizer detokenizer_;
  int64_t characters_ = 0;
};

/// Appends what write() gave to what it gave before (null at first).
void append_logprobs(OrderedJson& all, OrderedJson next);

/// The field prompt_logprobs: null for the first token, then {"id": {logprob, rank, decoded_token}} with the
/// token itself first and `top` alternatives, most likely first.
OrderedJson prompt_logprobs_json(const Logprobs& logprobs, int64_t top, const Tokenizer& tokenizer);

}  // namespace glint
