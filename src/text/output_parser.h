// Splits a model's answer into reasoning, content and tool calls, token by token.
//
// A state machine over (text | tag) events, as the text layer describes ("State machine", "Name", "Argument
// values", "Delimiters as data", "Malformed output", "Streaming deltas"). The result never depends on how the
// events are grouped, and the cost is linear in the text. What it decides, in short:
//  - White space: the end of the reasoning loses its trailing white space; white space in front of a
//  delivered call is
//    dropped, other content is untouched. With calls, result().content is trimmed on both sides, while the
//    deltas have already sent leading white space that real text followed: one of two places where they
//    differ.
//  - A call is opened (call_open delta, dense index) when its first <arg_value> or its end arrives, if its
//  name is allowed.
//    Others vanish with their text and are counted.
//  - Arguments are sent as they come where no later token can change their form: strings of a key whose
//  declared type is
//    string alone. Everything else waits for the end of its value.
//  - Inside a value a tag is data unless its position says otherwise: </arg_value> ends the value if
//  <arg_key>, </tool_call>
//    or the end follows (white space apart). If none does, the last </arg_value> ends it and the rest of the
//    call is junk; if there is no </arg_value>, the value ends at the call's final </tool_call>. A
//    </tool_call> with <tool_call> behind it counts as that final one, so that one broken call does not
//    swallow the next.
//  - A key that comes twice: the last value wins. Its deltas then hold both, which JSON readers resolve the
//  same way.
//  - An answer that is cut (length, abort, a stop string) inside a call: the call keeps its complete pairs in
//  result(), the
//    deltas simply end: the other place where they differ.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_request.h"
#include "text/output_tags.h"
#include "text/tool_schema.h"

namespace glint {

/// A unique id: "chatcmpl-tool-" and 32 random hex digits.
std::string random_tool_call_id();

struct OutputParserOptions {
  bool starts_in_reasoning = true;       // RenderedChat::starts_in_reasoning
  std::shared_ptr<const ToolSet> tools;  // null or empty: any name passes
  ToolChoice tool_choice;                // none: calls are dropped; named: other names are dropped
  bool parallel_tool_calls = true;       // false: only the call with index 0
  bool include_reasoning = true;         // false: reasoning is counted, not reported
  bool drop_unknown_tools = true;        // false: calls of undeclared tools are passed on
  std::function<std::string()> make_call_id = random_tool_call_id;
};

struct OutputDelta {
  enum class Kind : uint8_t { reasoning, content, call_open, call_arguments };
  Kind kind = Kind::content;
  int32_t index = 0;  // of the call
  std::string text;   // reasoning, content or a piece of the arguments' JSON text; empty for call_open
  std::string id;     // call_open
  std::string name;   // call_open
};

struct OutputToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text of an object, as json.dumps prints it; keys in order of appearance
};

struct OutputResult {
  std::optional<std::string> reasoning;  // absent if empty
  std::optional<std::string>
      content;  // absent if empty; "" instead beside calls of a required or named choice
  std::vector<OutputToolCall> tool_calls;
  std::optional<OutputDelta::Kind> last;  // of the last delta; call_arguments for a call without such, too
  std::string last_arguments;             // of the last call, as its deltas tell them
};

/// How the answer ended, as far as the parser cares.
enum class OutputEnd : uint8_t {
  complete,  // the model ended its turn: an open call counts
  cut,       // max_tokens, abort, error or a stop string: an open value or name does not count
};

struct OutputCounters {
  int64_t unknown_tools = 0;  // calls dropped because their name is not allowed
  int64_t stray_tags = 0;     // </tool_call> in text
  int64_t broken_calls = 0;   // nameless calls, phantoms, calls that needed the rules for malformed output
};

class OutputParser {
 public:
  explicit OutputParser(OutputParserOptions options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  /// Events append to `out`; a delta that continues the last one in `out` is merged into it. Text is whole
  /// UTF-8.
  void text(std::string_view piece, std::vector<OutputDelta>& out);
  void tag(OutputTag tag, std::vector<OutputDelta>& out);
  /// No event may follow.
  void finish(OutputEnd end, std::vector<OutputDelta>& out);

  /// True while ordinary tokens count as reasoning.
  [[nodiscard]] bool in_reasoning() const;
  /// Any call_open has been sent.
  [[nodiscard]] bool called() const;
  /// After finish(cut): the answer ended inside a delivered call.
  [[nodiscard]] bool cut_in_call() const;
  [[nodiscard]] const OutputCounters& counters() const;
  /// The whole answer; only after finish().
  [[nodiscard]] OutputResult result() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
