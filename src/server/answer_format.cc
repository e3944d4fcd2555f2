#include "server/answer_format.h"

#include <sys/random.h>

#include <array>

#include "base/error.h"
#include "server/json_append.h"

namespace glint {

namespace {

/// "name": "text", with a comma in front unless it is the first.
void append_member(std::string& out, bool& first, std::string_view name, std::string_view text) {
  if (!first) out += ',';
  first = false;
  append_json_text(out, name);
  out += ':';
  append_json_text(out, text);
}

void append_stop_reason(std::string& out, const StopReason& reason) {
  if (const auto* token = std::get_if<TokenId>(&reason)) {
    append_json_number(out, *token);
  } else if (const auto* text = std::get_if<std::string>(&reason)) {
    append_json_text(out, *text);
  } else {
    out += "null";
  }
}

void append_logprobs_member(std::string& out, const OrderedJson& logprobs) {
  out += logprobs.is_null() ? "null" : dump_json(logprobs);
}

void append_ids(std::string& out, std::string_view name, std::span<const TokenId> ids) {
  out.append(",\"").append(name).append("\":[");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    append_json_number(out, ids[i]);
  }
  out += ']';
}

void append_token_ids(std::string& out, std::span<const TokenId> ids) {
  if (!ids.empty()) append_ids(out, "token_ids", ids);
}

void append_prompt(std::string& out, const PromptReport& prompt) {
  if (prompt.token_ids) append_ids(out, "prompt_token_ids", *prompt.token_ids);
  if (!prompt.text) return;
  out += ",\"prompt_text\":";
  append_json_text(out, *prompt.text);
}

template <class T>
OrderedJson or_null(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson stop_reason_json(const StopReason& reason) {
  if (const auto* token = std::get_if<TokenId>(&reason)) return *token;
  if (const auto* text = std::get_if<std::string>(&reason)) return *text;
  return nullptr;
}

constexpr std::string_view kEventEnd = "}\n\n";

class FormatBase : public AnswerFormat {
 public:
  FormatBase(AnswerIdentity identity, std::string_view prefix, std::string_view object, bool count_reasoning)
      : identity_(std::move(identity)),
        id_(std::string(prefix) + identity_.id),
        count_reasoning_(count_reasoning) {
    event_begin_ = "data: {\"id\":";
    append_json_text(event_begin_, id_);
    event_begin_ += ",\"object\":";
    append_json_text(event_begin_, object);
    event_begin_ += ",\"created\":";
    append_json_number(event_begin_, identity_.created_s);
    event_begin_ += ",\"model\":";
    append_json_text(event_begin_, identity_.model);
    event_begin_ += ",\"choices\":[";
  }

  void append_usage(std::string& out, const Usage& usage) override {
    out += event_begin_;
    end_event(out, &usage);
    if (!usage.metrics || usage.metrics->is_null()) return;
    out.resize(out.size() - kEventEnd.size());
    out.append(",\"metrics\":").append(dump_json(*usage.metrics)).append(kEventEnd);
  }
  void append_end(std::string& out) override { out += "data: [DONE]\n\n"; }
  void append_error(std::string& out, const ApiError& error) override {
    out += "data: " + error_json(error) + "\n\ndata: [DONE]\n\n";
  }

 protected:
  void begin_choice(std::string& out, int choice) const {
    out += event_begin_;
    out += "{\"index\":";
    append_json_number(out, choice);
  }
  /// Closes the list of choices and the event.
  void end_event(std::string& out, const Usage* usage, const PromptReport* prompt = nullptr) const {
    out += ']';
    if (prompt != nullptr) append_prompt(out, *prompt);
    if (usage != nullptr) {
      out += ",\"usage\":{\"prompt_tokens\":";
      append_json_number(out, usage->prompt_tokens);
      out += ",\"total_tokens\":";
      append_json_number(out, usage->prompt_tokens + usage->completion_tokens);
      out += ",\"completion_tokens\":";
      append_json_number(out, usage->completion_tokens);
      if (usage->cached_tokens) {
        out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
        append_json_number(out, *usage->cached_tokens);
        out += '}';
      }
      if (count_reasoning_) {
        out += ",\"completion_tokens_details\":{\"reasoning_tokens\":";
        append_json_number(out, usage->reasoning_tokens);
        out += '}';
      }
      out += '}';
    }
    out += kEventEnd;
  }
  [[nodiscard]] OrderedJson whole_begin(std::string_view object) const {
    OrderedJson answer;
    answer["id"] = id_;
    answer["object"] = object;
    answer["created"] = identity_.created_s;
    answer["model"] = identity_.model;
    answer["choices"] = OrderedJson::array();
    return answer;
  }
  [[nodiscard]] OrderedJson usage_json(const Usage& usage) const {
    OrderedJson json;
    json["prompt_tokens"] = usage.prompt_tokens;
    json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
    json["completion_tokens"] = usage.completion_tokens;
    json["prompt_tokens_details"] = nullptr;
    if (usage.cached_tokens) json["prompt_tokens_details"] = {{"cached_tokens", *usage.cached_tokens}};
    if (count_reasoning_) json["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning_tokens}};
    return json;
  }

 private:
  AnswerIdentity identity_;
  std::string id_;
  std::string event_begin_;
  bool count_reasoning_;
};

class ChatFormat : public FormatBase {
 public:
  ChatFormat(AnswerIdentity identity, ReasoningField field)
      : FormatBase(std::move(identity), "chatcmpl-", "chat.completion.chunk", true), field_(field) {}

  void append_role(std::string& out, int choice, const PromptReport& prompt, const Usage* usage) override {
    begin_choice(out, choice);
    out += R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})";
    end_event(out, usage, &prompt);
  }

  void append_step(std::string& out, int choice, const StepContent& step, const Usage* usage) override {
    const OutputChunk chunk = merge_deltas(step.deltas);
    if (chunk.empty() && step.logprobs.is_null() && step.token_ids.empty()) return;
    begin_choice(out, choice);
    out += ",\"delta\":{";
    bool first = true;
    if (!chunk.reasoning.empty()) {
      if (field_ != ReasoningField::reasoning_content)
        append_member(out, first, "reasoning", chunk.reasoning);
      if (field_ != ReasoningField::reasoning)
        append_member(out, first, "reasoning_content", chunk.reasoning);
    }
    if (!chunk.content.empty()) append_member(out, first, "content", chunk.content);
    if (!chunk.calls.empty()) {
      out += first ? "\"tool_calls\":[" : ",\"tool_calls\":[";
      for (size_t i = 0; i < chunk.calls.size(); ++i) {
        if (i > 0) out += ',';
        append_call(out, chunk.calls[i]);
      }
      out += ']';
    }
    out += R"(},"logprobs":)";
    append_logprobs_member(out, step.logprobs);
    out += R"(,"finish_reason":null)";
    append_token_ids(out, step.token_ids);
    out += '}';
    end_event(out, usage);
  }

  void append_finish(std::string& out, int choice, const OutputFinish& finish, const Usage* usage) override {
    begin_choice(out, choice);
    out += R"(,"delta":{},"logprobs":null,"finish_reason":)";
    append_json_text(out, finish.finish_reason);
    out += ",\"stop_reason\":";
    append_stop_reason(out, finish.stop_reason);
    out += '}';
    end_event(out, usage);
  }

  [[nodiscard]] std::string whole(std::span<const WholeChoice> choices, const Usage& usage) override {
    OrderedJson answer = whole_begin("chat.completion");
    for (const WholeChoice& choice : choices) {
      OrderedJson json;
      json["index"] = answer["choices"].size();
      json["message"] = message(choice.result);
      json["logprobs"] = choice.logprobs;
      json["finish_reason"] = choice.finish.finish_reason;
      json["stop_reason"] = stop_reason_json(choice.finish.stop_reason);
      json["token_ids"] = or_null(choice.token_ids);
      answer["choices"].push_back(std::move(json));
    }
    answer["service_tier"] = nullptr;
    answer["system_fingerprint"] = nullptr;
    answer["usage"] = usage_json(usage);
    if (usage.metrics) answer["metrics"] = *usage.metrics;
    answer["prompt_logprobs"] = choices.empty() ? OrderedJson() : choices.front().prompt_logprobs;
    const PromptReport prompt = choices.empty() ? PromptReport() : choices.front().prompt;
    answer["prompt_token_ids"] = or_null(prompt.token_ids);
    if (prompt.text) answer["prompt_text"] = *prompt.text;
    answer["kv_transfer_params"] = nullptr;
    return dump_json(answer);
  }

 private:
  static void append_call(std::string& out, const OutputChunk::Call& call) {
    out += "{\"index\":";
    append_json_number(out, call.index);
    if (call.opens) {
      out += ",\"id\":";
      append_json_text(out, call.id);
      out += R"(,"type":"function","function":{"name":)";
      append_json_text(out, call.name);
      out += ",\"arguments\":";
    } else {
      out += R"(,"function":{"arguments":)";
    }
    append_json_text(out, call.arguments);
    out += "}}";
  }

  [[nodiscard]] OrderedJson message(const OutputResult& result) const {
    OrderedJson json;
    json["role"] = "assistant";
    json["content"] = or_null(result.content);
    for (const char* absent : {"refusal", "annotations", "audio", "function_call"}) json[absent] = nullptr;
    for (const OutputToolCall& call : result.tool_calls) {
      OrderedJson function{{"name", call.name}, {"arguments", call.arguments}};
      json["tool_calls"].push_back(
          {{"id", call.id}, {"type", "function"}, {"function", std::move(function)}});
    }
    if (field_ != ReasoningField::reasoning_content) json["reasoning"] = or_null(result.reasoning);
    if (field_ != ReasoningField::reasoning) json["reasoning_content"] = or_null(result.reasoning);
    return json;
  }

  ReasoningField field_;
};

class CompletionFormat : public FormatBase {
 public:
  explicit CompletionFormat(AnswerIdentity identity)
      : FormatBase(std::move(identity), "cmpl-", "text_completion", false) {}

  void append_role(std::string& out, int choice, const PromptReport& prompt, const Usage* usage) override {
    if (!prompt.token_ids && !prompt.text) return;
    begin_choice(out, choice);
    out += R"(,"text":"","logprobs":null,"finish_reason":null,"stop_reason":null)";
    append_prompt(out, prompt);
    out += '}';
    end_event(out, usage);
  }

  void append_step(std::string& out, int choice, const StepContent& step, const Usage* usage) override {
    const OutputChunk chunk = merge_deltas(step.deltas);
    if (chunk.empty() && step.logprobs.is_null() && step.token_ids.empty()) return;
    begin_choice(out, choice);
    out += ",\"text\":";
    append_json_text(out, chunk.content);
    out += R"(,"logprobs":)";
    append_logprobs_member(out, step.logprobs);
    out += R"(,"finish_reason":null,"stop_reason":null)";
    append_token_ids(out, step.token_ids);
    out += '}';
    end_event(out, usage);
  }

  void append_finish(std::string& out, int choice, const OutputFinish& finish, const Usage* usage) override {
    begin_choice(out, choice);
    out += R"(,"text":"","logprobs":null,"finish_reason":)";
    append_json_text(out, finish.finish_reason);
    out += ",\"stop_reason\":";
    append_stop_reason(out, finish.stop_reason);
    out += '}';
    end_event(out, usage);
  }

  [[nodiscard]] std::string whole(std::span<const WholeChoice> choices, const Usage& usage) override {
    OrderedJson answer = whole_begin("text_completion");
    for (const WholeChoice& choice : choices) {
      OrderedJson json;
      json["index"] = answer["choices"].size();
      json["text"] = choice.result.content.value_or("");
      json["logprobs"] = choice.logprobs;
      json["finish_reason"] = choice.finish.finish_reason;
      json["stop_reason"] = stop_reason_json(choice.finish.stop_reason);
      json["token_ids"] = or_null(choice.token_ids);
      json["prompt_logprobs"] = choice.prompt_logprobs;
      json["prompt_token_ids"] = or_null(choice.prompt.token_ids);
      if (choice.prompt.text) json["prompt_text"] = *choice.prompt.text;
      answer["choices"].push_back(std::move(json));
    }
    answer["service_tier"] = nullptr;
    answer["system_fingerprint"] = nullptr;
    answer["usage"] = usage_json(usage);
    if (usage.metrics) answer["metrics"] = *usage.metrics;
    answer["kv_transfer_params"] = nullptr;
    return dump_json(answer);
  }
};

}  // namespace

HttpResponse AnswerFormat::refusal(const ApiError& error) {
  return error_response(error);
}

ReasoningField parse_reasoning_field(std::string_view name) {
  if (name == "reasoning") return ReasoningField::reasoning;
  if (name == "reasoning_content") return ReasoningField::reasoning_content;
  if (name == "both") return ReasoningField::both;
  fail(ErrorKind::bad_input, "argument --reasoning-field: invalid choice: '", name,
       "' (choose from reasoning, reasoning_content, both)");
}

std::unique_ptr<AnswerFormat> make_answer_format(Endpoint endpoint, AnswerIdentity identity,
                                                 ReasoningField field) {
  if (endpoint == Endpoint::chat) return std::make_unique<ChatFormat>(std::move(identity), field);
  return std::make_unique<CompletionFormat>(std::move(identity));
}

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  GLINT_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  static constexpr char kHex[] = "0123456789abcdef";
  std::string id;
  for (const unsigned char byte : bytes) {
    id += kHex[byte >> 4U];
    id += kHex[byte & 15U];
  }
  return id;
}

}  // namespace glint
