#include "text/output_parser.h"

#include <array>
#include <random>
#include <utility>

#include "base/error.h"
#include "text/answer_writer.h"
#include "text/call_parser.h"

namespace glint {

std::string random_tool_call_id() {
  static constexpr std::string_view kHex = "0123456789abcdef";
  thread_local std::random_device source;
  std::string id = "chatcmpl-tool-";
  for (int word = 0; word < 4; ++word) {
    const uint32_t bits = source();
    for (unsigned shift = 0; shift < 32; shift += 4) id += kHex[(bits >> shift) & 15U];
  }
  return id;
}

class OutputParser::Impl {
 public:
  explicit Impl(OutputParserOptions options)
      : options_(std::move(options)),
        state_(options_.starts_in_reasoning ? State::reasoning : State::content),
        writer_(options_.include_reasoning),
        call_(options_, writer_, counters_) {}

  void set_out(std::vector<OutputDelta>& out) {
    GLINT_CHECK(!finished_);
    writer_.set_out(&out);
  }

  void text(std::string_view piece) {
    switch (state_) {
      case State::reasoning:
        writer_.reasoning(piece);
        break;
      case State::content:
        writer_.content(piece);
        break;
      case State::call:
        call_.text(piece);
        break;
    }
  }

  void tag(OutputTag tag) {
    switch (state_) {
      case State::reasoning:
        reasoning_tag(tag);
        break;
      case State::content:
        content_tag(tag);
        break;
      case State::call:
        call_tag(tag);
        break;
    }
  }

  void finish(OutputEnd end) {
    if (state_ == State::call && end == OutputEnd::complete) finish_calls();
    if (state_ == State::call && end == OutputEnd::cut) cut_in_call_ = call_.finish_cut();
    writer_.finish();
    finished_ = true;
  }

  [[nodiscard]] bool in_reasoning() const { return state_ == State::reasoning; }
  [[nodiscard]] bool called() const { return writer_.calls() > 0; }
  [[nodiscard]] bool cut_in_call() const { return cut_in_call_; }
  [[nodiscard]] const OutputCounters& counters() const { return counters_; }

  [[nodiscard]] OutputResult result() const {
    GLINT_CHECK(finished_);
    const ToolChoiceMode mode = options_.tool_choice.mode;
    return writer_.result(mode == ToolChoiceMode::required || mode == ToolChoiceMode::named);
  }

 private:
  enum class State : uint8_t { reasoning, content, call };

  void start_call() {
    state_ = State::call;
    call_.start();
  }

  void reasoning_tag(OutputTag tag) {
    switch (tag) {
      case OutputTag::think_open:
        break;
      case OutputTag::think_close:
        writer_.end_reasoning();
        state_ = State::content;
        break;
      case OutputTag::call_open:
        writer_.end_reasoning();
        start_call();
        break;
      default:
        writer_.reasoning(tag_text(tag));
        break;
    }
  }

  void content_tag(OutputTag tag) {
    switch (tag) {
      case OutputTag::think_open:
        state_ = State::reasoning;
        break;
      case OutputTag::think_close:
        break;
      case OutputTag::call_open:
        start_call();
        break;
      case OutputTag::call_close:
        ++counters_.stray_tags;
        break;
      default:
        writer_.content(tag_text(tag));
        break;
    }
  }

  void call_tag(OutputTag tag) {
    switch (call_.tag(tag)) {
      case CallParser::Step::inside:
        break;
      case CallParser::Step::ended:
        state_ = State::content;
        break;
      case CallParser::Step::next_call:
        start_call();
        break;
    }
  }

  /// The answer is over inside a call. What the call gives back holds no </arg_value>, so each </tool_call>
  /// in it can be judged by what follows, and one pass over the events is enough however many broken calls
  /// there are.
  void finish_calls() {
    bool value_open = false;
    const std::vector<OutputEvent> events = call_.finish_complete(value_open);
    if (!value_open) state_ = State::content;
    const size_t last = last_call_close(events);
    for (size_t at = 0; at < events.size(); ++at) {
      const OutputEvent& event = events[at];
      if (event.tag == OutputTag::none) {
        text(event.text);
      } else if (state_ != State::call || !call_.in_value() || event.tag != OutputTag::call_close) {
        tag(event.tag);
      } else if (closes_call(events, at, last)) {
        tag(OutputTag::value_close);
        tag(OutputTag::call_close);
      } else {
        text(tag_text(event.tag));
      }
    }
    if (state_ == State::call) call_.finish_complete(value_open);
  }

  OutputParserOptions options_;
  OutputCounters counters_;
  State state_;
  AnswerWriter writer_;
  CallParser call_;
  bool cut_in_call_ = false;
  bool finished_ = false;
};

OutputParser::OutputParser(OutputParserOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

void OutputParser::text(std::string_view piece, std::vector<OutputDelta>& out) {
  if (piece.empty()) return;
  impl_->set_out(out);
  impl_->text(piece);
}

void OutputParser::tag(OutputTag tag, std::vector<OutputDelta>& out) {
  if (tag == OutputTag::none) return;
  impl_->set_out(out);
  impl_->tag(tag);
}

void OutputParser::finish(OutputEnd end, std::vector<OutputDelta>& out) {
  impl_->set_out(out);
  impl_->finish(end);
}

bool OutputParser::in_reasoning() const {
  return impl_->in_reasoning();
}
bool OutputParser::called() const {
  return impl_->called();
}
bool OutputParser::cut_in_call() const {
  return impl_->cut_in_call();
}
const OutputCounters& OutputParser::counters() const {
  return impl_->counters();
}
OutputResult OutputParser::result() const {
  return impl_->result();
}

}  // namespace glint
