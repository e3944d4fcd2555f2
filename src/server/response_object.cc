#include "server/response_object.h"

#include "server/json_append.h"
#include "text/python_json.h"

namespace glint {

namespace {

void append_member(std::string& out, std::string_view name, std::string_view text) {
  out.append(",\"").append(name).append("\":");
  append_json_text(out, text);
}

OrderedJson usage_json(const Usage& usage) {
  OrderedJson json;
  json["input_tokens"] = usage.prompt_tokens;
  json["input_tokens_details"] = {{"cached_tokens", usage.cached_tokens.value_or(0)},
                                  {"cache_write_tokens", 0}};
  json["output_tokens"] = usage.completion_tokens;
  json["output_tokens_details"] = {{"reasoning_tokens", usage.reasoning_tokens}};
  json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  return json;
}

/// OpenAI's names for what a response can fail of.
OrderedJson error_member(const ApiError* error) {
  if (error == nullptr) return nullptr;
  return {{"code", error->status < 500 ? "invalid_prompt" : "server_error"}, {"message", error->message}};
}

}  // namespace

ResponseObject::ResponseObject(const AnswerIdentity& identity, const OrderedJson& echo)
    : id_("resp_" + identity.id) {
  head_ = "{\"id\":";
  append_json_text(head_, id_);
  head_ += R"(,"object":"response","created_at":)";
  append_json_number(head_, identity.created_s);
  append_member(head_, "model", identity.model);
  // Numbers of any size keep their digits this way.
  const std::string members = python_dumps(echo);
  if (members.size() > 2) echo_ = cat(",", members.substr(1, members.size() - 2));
}

void ResponseObject::append(std::string& out, const ResponseState& state) const {
  out += head_;
  append_member(out, "status", state.status);
  out.append(",\"error\":").append(dump_json(error_member(state.error)));
  out += ",\"incomplete_details\":";
  if (state.incomplete_reason.empty()) {
    out += "null";
  } else {
    out += dump_json(OrderedJson{{"reason", state.incomplete_reason}});
  }
  out += ",\"output\":[";
  for (size_t i = 0; state.output != nullptr && i < state.output->size(); ++i) {
    if (i > 0) out += ',';
    out += (*state.output)[i];
  }
  out += "],\"usage\":";
  out += state.usage == nullptr ? "null" : dump_json(usage_json(*state.usage));
  if (state.usage != nullptr && state.usage->metrics) {
    out.append(",\"metrics\":").append(dump_json(*state.usage->metrics));
  }
  out += echo_;
  out += '}';
}

std::string reasoning_item(std::string_view id, std::string_view text, std::string_view status) {
  std::string out = "{\"id\":";
  append_json_text(out, id);
  out += R"(,"type":"reasoning","summary":[],"content":[)";
  if (!text.empty()) {
    out += R"({"type":"reasoning_text","text":)";
    append_json_text(out, text);
    out += '}';
  }
  out += R"(],"encrypted_content":null)";
  append_member(out, "status", status);
  return out + "}";
}

std::string text_part(std::string_view text) {
  std::string out = R"({"type":"output_text","text":)";
  append_json_text(out, text);
  return out + R"(,"annotations":[],"logprobs":[]})";
}

std::string message_item(std::string_view id, std::string_view part, std::string_view status) {
  std::string out = "{\"id\":";
  append_json_text(out, id);
  out += R"(,"type":"message","role":"assistant","content":[)";
  out.append(part).append("]");
  append_member(out, "status", status);
  return out + "}";
}

std::string function_call_item(const FunctionCallItem& call, std::string_view status) {
  std::string out = "{\"id\":";
  append_json_text(out, call.id);
  out += R"(,"type":"function_call")";
  append_member(out, "call_id", call.call_id);
  append_member(out, "name", call.name);
  if (!call.space.empty()) append_member(out, "namespace", call.space);
  append_member(out, "arguments", call.arguments);
  append_member(out, "status", status);
  return out + "}";
}

}  // namespace glint
