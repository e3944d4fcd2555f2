// The answer under construction: applies the white space rules, emits deltas and keeps the whole. Private to
// the text room.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/output_parser.h"

namespace glint {

class AnswerWriter {
 public:
  explicit AnswerWriter(bool include_reasoning) : include_reasoning_(include_reasoning) {}

  /// Where the next deltas go.
  void set_out(std::vector<OutputDelta>* out) { out_ = out; }

  /// Trailing white space waits for the text behind it.
  void reasoning(std::string_view text);
  void end_reasoning() { reasoning_space_.clear(); }
  void content(std::string_view text);

  /// Opens the next call and returns its index. White space in front of it is dropped.
  int32_t open_call(std::string id, std::string name);
  void arguments(int32_t index, std::string_view json);
  /// A complete pair of the call, both as JSON text. A repeated key replaces the value.
  void add_pair(int32_t index, std::string key, std::string value);

  void finish();
  [[nodiscard]] int32_t calls() const { return static_cast<int32_t>(calls_.size()); }
  [[nodiscard]] OutputResult result(bool is_forced_choice) const;

 private:
  struct Call {
    std::string id;
    std::string name;
    std::vector<std::pair<std::string, std::string>> pairs;
    std::unordered_map<std::string, size_t> places;
  };
  void emit(OutputDelta::Kind kind, int32_t index, std::string_view text);

  bool include_reasoning_;
  std::vector<OutputDelta>* out_ = nullptr;
  std::string reasoning_;
  std::string reasoning_space_;
  std::string content_;
  std::string content_space_;
  std::vector<Call> calls_;
  std::optional<OutputDelta::Kind> last_;
  std::string last_arguments_;  // of the last call, as sent
};

}  // namespace glint
