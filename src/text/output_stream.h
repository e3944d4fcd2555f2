// Tokens of one answer in, what the client gets out: detokenizer, stop strings and output parser in a row.
//
// One object per choice, used by one thread at a time. Deltas never hold half a character, text behind a stop
// string or GLM's markup.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "text/output_parser.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace glint {

enum class OutputMode : uint8_t {
  chat,  // reasoning and tool calls are parsed
  text,  // /v1/completions: everything is content, special tokens as skip_special_tokens says
};

struct OutputStreamOptions {
  OutputMode mode = OutputMode::chat;
  OutputParserOptions parser;               // chat
  std::shared_ptr<const StopStrings> stop;  // null: none
  bool include_stop_str_in_output = false;  // keep the matched stop string, and a stop token's text
  bool skip_special_tokens = true;
  int64_t min_tokens = 0;              // see stop_matcher.h
  std::optional<TokenId> primary_eos;  // its stop_reason is null
};

/// How the engine ended the sequence.
struct StreamEnd {
  enum class Reason : uint8_t { stop, length, abort, error };
  Reason reason = Reason::stop;
  std::optional<TokenId> stop_token;  // stop by a token: that token, which must NOT have been pushed
};

/// JSON null, a token id or the matched stop string.
using StopReason = std::variant<std::monostate, TokenId, std::string>;

struct OutputFinish {
  std::string finish_reason;  // "stop", "length", "tool_calls", "abort" or "error"
  StopReason stop_reason;
  bool cut_in_call = false;  // the answer ends inside of a call that was shown
};

class OutputStream {
 public:
  /// `tags` may be null in text mode.
  OutputStream(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const OutputTags> tags,
               OutputStreamOptions options);

  /// The deltas that these tokens complete, in order, adjacent ones of one kind merged. After a stop string
  /// has matched, further tokens are ignored.
  std::vector<OutputDelta> push(std::span<const TokenId> tokens);
  std::vector<OutputDelta> push(TokenId token) { return push({&token, 1}); }

  /// Ends the answer: what was held back comes out, then finish_info() and result() are valid. A stop string
  /// that this stream has matched itself wins over `end`.
  std::vector<OutputDelta> finish(const StreamEnd& end);

  /// A stop string has matched: the sequence can be ended.
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] const OutputFinish& finish_info() const { return finish_; }
  [[nodiscard]] OutputResult result() const;

  /// Ordinary tokens generated while reasoning, so far (tags, role tokens and the ending token are not
  /// counted).
  [[nodiscard]] int64_t reasoning_tokens() const { return reasoning_tokens_; }
  [[nodiscard]] const OutputCounters& counters() const { return parser_.counters(); }

 private:
  /// Decoded, not yet handed to the parser.
  struct Item {
    OutputTag tag = OutputTag::none;
    bool counts = false;  // the end of an ordinary token: counted as reasoning if it is delivered there
    bool shown = true;    // false: a role token, whose text only stop strings see
    std::string text;
    size_t taken = 0;  // bytes of `text` already released
  };
  void accept(TokenId token, std::vector<OutputDelta>& out);
  bool append(Item item);
  void release(size_t bytes, std::vector<OutputDelta>& out);
  void deliver(const Item& item, std::string_view text, bool whole, std::vector<OutputDelta>& out);
  void stop_here(size_t match, std::vector<OutputDelta>& out);
  void set_finish(const StreamEnd& end);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const OutputTags> tags_;
  OutputStreamOptions options_;
  StreamDetokenizer detokenizer_;
  OutputParser parser_;
  std::deque<Item> held_;
  size_t held_bytes_ = 0;
  uint32_t stop_state_ = StopStrings::kStart;
  int64_t tokens_ = 0;
  int64_t reasoning_tokens_ = 0;
  bool stopped_ = false;
  std::string stop_string_;  // the one that has matched
  std::string text_;         // text mode: everything so far
  OutputFinish finish_;
};

/// Deltas of one step as one chunk of the API: reasoning and content joined, entries of one call merged.
struct OutputChunk {
  struct Call {
    int32_t index = 0;
    bool opens = false;  // id and name are set: the first delta of the call
    std::string id;
    std::string name;
    std::string arguments;  // may be empty, in an opening delta only
  };
  std::string reasoning;
  std::string content;
  std::vector<Call> calls;
  [[nodiscard]] bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};
OutputChunk merge_deltas(std::span<const OutputDelta> deltas);

}  // namespace glint
