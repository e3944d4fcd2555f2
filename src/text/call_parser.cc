#include "text/call_parser.h"

#include <utility>

#include "text/argument_coercion.h"
#include "text/python_json.h"
#include "text/python_text.h"

namespace glint {

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(out, text);
  return out += '"';
}

bool is_blank_event(const OutputEvent& event) {
  return event.tag == OutputTag::none && is_blank(event.text);
}

}  // namespace

size_t last_call_close(const std::vector<OutputEvent>& events) {
  size_t at = events.size();
  while (at > 0 && events[at - 1].tag != OutputTag::call_close) --at;
  return at == 0 ? events.size() : at - 1;
}

bool closes_call(const std::vector<OutputEvent>& events, size_t at, size_t last) {
  if (at == last) return true;
  size_t next = at + 1;
  while (next < events.size() && is_blank_event(events[next])) ++next;
  return next == events.size() || events[next].tag == OutputTag::call_open;
}

void CallParser::start() {
  state_ = State::name;
  name_.clear();
  decided_ = false;
  index_ = -1;
  has_pairs_ = false;
  held_.clear();
}

void CallParser::text(std::string_view piece) {
  switch (state_) {
    case State::name:
      name_ += piece;
      break;
    case State::key:
      key_ += piece;
      break;
    case State::after_key:
      after_key_ += piece;
      if (!is_blank(piece)) {
        start_value(/*is_recovered=*/true);
        data(after_key_);
      }
      break;
    case State::value:
      if (held_.empty()) {
        data(piece);
      } else {
        is_blank_since_ = is_blank_since_ && is_blank(piece);
        hold(OutputTag::none, piece);
      }
      break;
  }
}

CallParser::Step CallParser::tag(OutputTag tag) {
  switch (state_) {
    case State::name:
      return name_tag(tag);
    case State::key:
      return key_tag(tag);
    case State::after_key:
      return after_key_tag(tag);
    case State::value:
      return value_tag(tag);
  }
  return Step::inside;
}

CallParser::Step CallParser::name_tag(OutputTag tag) {
  switch (tag) {
    case OutputTag::call_open:
      return leave_for_next();
    case OutputTag::call_close:
      end_call();
      return Step::ended;
    case OutputTag::key_open:
      state_ = State::key;
      key_.clear();
      break;
    default:
      break;  // a stray tag glued to the name is no part of it
  }
  return Step::inside;
}

CallParser::Step CallParser::key_tag(OutputTag tag) {
  switch (tag) {
    case OutputTag::call_open:
      return leave_for_next();
    case OutputTag::call_close:
      end_call();
      return Step::ended;
    case OutputTag::key_open:
      key_.clear();
      break;
    case OutputTag::key_close:
      state_ = State::after_key;
      after_key_.clear();
      break;
    case OutputTag::value_open:
      start_value(/*is_recovered=*/false);
      break;
    default:
      break;
  }
  return Step::inside;
}

CallParser::Step CallParser::after_key_tag(OutputTag tag) {
  switch (tag) {
    case OutputTag::call_open:
      return leave_for_next();
    case OutputTag::call_close:
      end_call();
      return Step::ended;
    case OutputTag::key_open:
      state_ = State::key;
      key_.clear();
      break;
    case OutputTag::value_open:
      start_value(/*is_recovered=*/false);
      break;
    case OutputTag::value_close:
      start_value(/*is_recovered=*/true);
      data(after_key_);
      return value_tag(tag);
    default:
      break;
  }
  return Step::inside;
}

CallParser::Step CallParser::value_tag(OutputTag tag) {
  if (tag == OutputTag::value_close) {
    // Whatever has been held since an earlier candidate turns out to be data.
    release_held();
    hold(tag, {});
    is_candidate_ = is_blank_since_ = true;
    return Step::inside;
  }
  const bool ends_value = is_blank_since_ && !held_.empty();
  if (ends_value && tag == OutputTag::key_open) {
    end_value();
    state_ = State::key;
    key_.clear();
  } else if (ends_value && tag == OutputTag::call_close) {
    end_value();
    end_call();
    return Step::ended;
  } else if (!held_.empty()) {
    is_blank_since_ = false;
    hold(tag, {});
  } else if (tag == OutputTag::call_close) {
    hold(tag, {});
    is_candidate_ = is_blank_since_ = false;
  } else if (tag == OutputTag::value_open && is_recovered_) {
    start_value(/*is_recovered=*/false);  // what stood before it was junk
  } else {
    data(tag_text(tag));
  }
  return Step::inside;
}

/// A <tool_call> where no value is open: this call has lost its end, or it never was one.
CallParser::Step CallParser::leave_for_next() {
  ++counters_.broken_calls;
  if (has_pairs_) end_call();
  return Step::next_call;
}

/// Looks at the name and, if it may be delivered, opens the call.
void CallParser::open() {
  if (decided_) return;
  decided_ = true;
  const std::string_view name = python_strip(name_);
  if (options_.tool_choice.mode == ToolChoiceMode::none) return;
  if (name.empty()) {
    ++counters_.broken_calls;
    return;
  }
  const bool declared =
      options_.tools == nullptr || options_.tools->empty() || options_.tools->contains(name);
  const bool chosen = options_.tool_choice.mode != ToolChoiceMode::named || options_.tool_choice.name == name;
  if (!chosen || (!declared && options_.drop_unknown_tools)) {
    ++counters_.unknown_tools;
    return;
  }
  if (!options_.parallel_tool_calls && writer_.calls() > 0) return;
  name_ = std::string(name);
  index_ = writer_.open_call(options_.make_call_id(), name_);
}

std::string CallParser::pair_head() const {
  return cat(has_pairs_ ? ", " : "{", quoted(python_strip(key_)), ": ");
}

void CallParser::start_value(bool is_recovered) {
  state_ = State::value;
  is_recovered_ = is_recovered;
  value_.clear();
  if (is_recovered) {
    ++counters_.broken_calls;
    is_streaming_ = false;  // its start is not certain yet
    return;
  }
  open();
  const bool has_schema = index_ >= 0 && options_.tools != nullptr;
  types_ = has_schema ? options_.tools->types_of(name_, python_strip(key_)) : JsonTypes{kTypeString};
  is_streaming_ = index_ >= 0 && is_always_string(types_);
  if (is_streaming_) writer_.arguments(index_, pair_head() + '"');
}

void CallParser::data(std::string_view text) {
  if (!is_streaming_) {
    if (is_recovered_ || index_ >= 0) value_ += text;
    return;
  }
  const size_t before = value_.size();
  append_json_escaped(value_, text);
  writer_.arguments(index_, std::string_view(value_).substr(before));
}

void CallParser::hold(OutputTag tag, std::string_view text) {
  if (tag == OutputTag::none && !held_.empty() && held_.back().tag == OutputTag::none) {
    held_.back().text += text;
  } else {
    held_.push_back({tag, std::string(text)});
  }
}

void CallParser::release_held() {
  for (const OutputEvent& event : held_)
    data(event.tag == OutputTag::none ? event.text : tag_text(event.tag));
  held_.clear();
}

void CallParser::end_value() {
  held_.clear();
  if (is_recovered_) {
    open();
    const bool has_schema = index_ >= 0 && options_.tools != nullptr;
    types_ = has_schema ? options_.tools->types_of(name_, python_strip(key_)) : JsonTypes{kTypeString};
  }
  if (index_ >= 0) {
    std::string json = is_streaming_ ? cat('"', value_, '"') : coerce_argument(value_, types_);
    writer_.arguments(index_, is_streaming_ ? "\"" : pair_head() + json);
    writer_.add_pair(index_, quoted(python_strip(key_)), std::move(json));
  }
  has_pairs_ = true;
  value_.clear();
}

void CallParser::end_call() {
  open();
  if (index_ >= 0) writer_.arguments(index_, has_pairs_ ? "}" : "{}");
}

std::vector<OutputEvent> CallParser::finish_complete(bool& value_open) {
  value_open = false;
  if (state_ != State::value) {
    end_call();
    return {};
  }
  if (held_.empty() || (is_candidate_ && is_blank_since_)) {
    end_value();
    end_call();
    return {};
  }
  ++counters_.broken_calls;
  std::vector<OutputEvent> events = std::exchange(held_, {});
  if (!is_candidate_) {
    value_open = true;
    return events;
  }
  // The </arg_value> in front closes the value, and junk follows up to the end of the call.
  end_value();
  end_call();
  size_t at = 1;
  while (at < events.size() && is_blank_event(events[at])) ++at;
  if (events[at].tag != OutputTag::call_open) {
    const size_t last = last_call_close(events);
    while (at < events.size() && !(events[at].tag == OutputTag::call_close && closes_call(events, at, last)))
      ++at;
    if (at < events.size()) ++at;
  }
  events.erase(events.begin(), events.begin() + static_cast<ptrdiff_t>(at));
  return events;
}

bool CallParser::finish_cut() {
  if (state_ == State::value && index_ >= 0 && is_candidate_ && is_blank_since_ && !held_.empty()) {
    std::string json = is_streaming_ ? cat('"', value_, '"') : coerce_argument(value_, types_);
    writer_.add_pair(index_, quoted(python_strip(key_)), std::move(json));
  }
  return index_ >= 0;
}

}  // namespace glint
