// The response object of the Responses API and its output items, as JSON text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/answer_format.h"
#include "server/responses_request.h"

namespace glint {

/// What changes while a response grows.
struct ResponseState {
  std::string_view status = "in_progress";
  std::string_view incomplete_reason;                // empty: none
  const ApiError* error = nullptr;                   // null: none
  const Usage* usage = nullptr;                      // null: none yet
  const std::vector<std::string>* output = nullptr;  // the JSON texts of its items; null: none
};

/// Writes one response again and again. Thread-safe after construction.
class ResponseObject {
 public:
  ResponseObject(const AnswerIdentity& identity, const OrderedJson& echo);
  [[nodiscard]] const std::string& id() const { return id_; }
  void append(std::string& out, const ResponseState& state) const;

 private:
  std::string id_;
  std::string head_;  // {"id": ..., "model": ...
  std::string echo_;  // further members, a comma in front
};

// Items. `status` is in_progress, completed or incomplete.
std::string reasoning_item(std::string_view id, std::string_view text, std::string_view status);
/// Without `part` the content is empty.
std::string message_item(std::string_view id, std::string_view part, std::string_view status);
std::string text_part(std::string_view text);
struct FunctionCallItem {
  std::string id, call_id, name, space, arguments;  // space: empty for none
};
std::string function_call_item(const FunctionCallItem& call, std::string_view status);

}  // namespace glint
