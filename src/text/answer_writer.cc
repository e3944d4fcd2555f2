#include "text/answer_writer.h"

#include <utility>

#include "text/python_text.h"

namespace glint {

void AnswerWriter::emit(OutputDelta::Kind kind, int32_t index, std::string_view text) {
  if (text.empty()) return;
  last_ = kind;
  if (!out_->empty() && out_->back().kind == kind && out_->back().index == index) {
    out_->back().text += text;
    return;
  }
  OutputDelta& delta = out_->emplace_back();
  delta.kind = kind;
  delta.index = index;
  delta.text = text;
}

void AnswerWriter::reasoning(std::string_view text) {
  if (!include_reasoning_) return;
  const std::string_view solid = python_rstrip(text);
  if (!solid.empty()) {
    reasoning_space_ += solid;
    reasoning_ += reasoning_space_;
    emit(OutputDelta::Kind::reasoning, 0, reasoning_space_);
    reasoning_space_.clear();
  }
  reasoning_space_ += text.substr(solid.size());
}

void AnswerWriter::content(std::string_view text) {
  const std::string_view solid = python_rstrip(text);
  if (!solid.empty()) {
    content_space_ += solid;
    content_ += content_space_;
    emit(OutputDelta::Kind::content, 0, content_space_);
    content_space_.clear();
  }
  content_space_ += text.substr(solid.size());
}

int32_t AnswerWriter::open_call(std::string id, std::string name) {
  content_space_.clear();
  const int32_t index = calls();
  calls_.push_back({id, name, {}, {}});
  last_ = OutputDelta::Kind::call_arguments;
  last_arguments_.clear();
  OutputDelta& delta = out_->emplace_back();
  delta.kind = OutputDelta::Kind::call_open;
  delta.index = index;
  delta.id = std::move(id);
  delta.name = std::move(name);
  return index;
}

void AnswerWriter::arguments(int32_t index, std::string_view json) {
  last_arguments_ += json;
  emit(OutputDelta::Kind::call_arguments, index, json);
}

void AnswerWriter::add_pair(int32_t index, std::string key, std::string value) {
  Call& call = calls_[static_cast<size_t>(index)];
  const auto [place, is_new] = call.places.try_emplace(key, call.pairs.size());
  if (is_new) {
    call.pairs.emplace_back(std::move(key), std::move(value));
  } else {
    call.pairs[place->second].second = std::move(value);
  }
}

void AnswerWriter::finish() {
  end_reasoning();
  if (calls_.empty()) {
    content_ += content_space_;
    emit(OutputDelta::Kind::content, 0, content_space_);
  }
  content_space_.clear();
}

OutputResult AnswerWriter::result(bool is_forced_choice) const {
  OutputResult out;
  out.last = last_;
  out.last_arguments = last_arguments_;
  if (!reasoning_.empty()) out.reasoning = reasoning_;
  const std::string_view content = calls_.empty() ? std::string_view(content_) : python_strip(content_);
  if (!content.empty() || (is_forced_choice && !calls_.empty())) out.content = content;
  for (const Call& call : calls_) {
    OutputToolCall& entry = out.tool_calls.emplace_back();
    entry.id = call.id;
    entry.name = call.name;
    entry.arguments.assign(1, '{');
    for (const auto& [key, value] : call.pairs) {
      if (entry.arguments.size() > 1) entry.arguments += ", ";
      entry.arguments.append(key).append(": ").append(value);
    }
    entry.arguments += '}';
  }
  return out;
}

}  // namespace glint
