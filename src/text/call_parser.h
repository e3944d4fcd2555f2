// The part of the output state machine between <tool_call> and </tool_call>. Private to the text room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer_writer.h"
#include "text/output_parser.h"

namespace glint {

/// Text, or a tag if `tag` is not none.
struct OutputEvent {
  OutputTag tag = OutputTag::none;
  std::string text;
};

/// True if the </tool_call> at events[at] is the end of its call, given that no </arg_value> comes behind it
/// any more: the next thing is <tool_call> or the end (white space apart), or no other </tool_call> (the last
/// one is at `last`) follows.
bool closes_call(const std::vector<OutputEvent>& events, size_t at, size_t last);
/// The index of the last </tool_call>; events.size() if there is none.
size_t last_call_close(const std::vector<OutputEvent>& events);

class CallParser {
 public:
  CallParser(const OutputParserOptions& options, AnswerWriter& writer, OutputCounters& counters)
      : options_(options), writer_(writer), counters_(counters) {}

  enum class Step : uint8_t {
    inside,     // the call goes on
    ended,      // the call is over
    next_call,  // the event was a <tool_call> that starts another call
  };

  /// A <tool_call> has been read.
  void start();
  void text(std::string_view piece);
  Step tag(OutputTag tag);
  /// The answer ends here. Returns what follows the call after all, to be read as ordinary output; with
  /// `value_open` set in the case that the call's value is still open and the returned events start inside
  /// it.
  std::vector<OutputEvent> finish_complete(bool& value_open);
  /// Returns true if the call had been opened.
  bool finish_cut();

  [[nodiscard]] bool in_value() const { return state_ == State::value; }

 private:
  enum class State : uint8_t { name, key, after_key, value };

  Step name_tag(OutputTag tag);
  Step key_tag(OutputTag tag);
  Step after_key_tag(OutputTag tag);
  Step value_tag(OutputTag tag);
  Step leave_for_next();

  void open();
  void start_value(bool is_recovered);
  void data(std::string_view text);
  void hold(OutputTag tag, std::string_view text);
  void release_held();
  void end_value();
  void end_call();
  std::string pair_head() const;

  const OutputParserOptions& options_;
  AnswerWriter& writer_;
  OutputCounters& counters_;

  State state_ = State::name;
  std::string name_;
  bool decided_ = false;  // the name has been looked at
  int32_t index_ = -1;    // of the delivered call, -1: nobody sees this call
  bool has_pairs_ = false;

  std::string key_;
  std::string after_key_;
  JsonTypes types_ = kTypeString;
  bool is_recovered_ = false;  // the value's <arg_value> is missing
  bool is_streaming_ = false;
  std::string value_;  // the raw text; the escaped text if streaming

  // From the first tag of a value whose meaning depends on what follows.
  std::vector<OutputEvent> held_;
  bool is_candidate_ = false;  // held_ starts with an </arg_value>, otherwise with a </tool_call>
  bool is_blank_since_ = false;
};

}  // namespace glint
