#include "server/messages_format.h"

#include "base/error.h"
#include "server/json_append.h"

namespace glint {

namespace {

using Kind = OutputDelta::Kind;

OrderedJson usage_json(const Usage& usage) {
  const int64_t cached = usage.cached_tokens.value_or(0);
  OrderedJson json;
  // Anthropic counts what came from the cache beside input_tokens, not in it.
  json["input_tokens"] = usage.prompt_tokens - cached;
  if (usage.cached_tokens) {
    json["cache_creation_input_tokens"] = 0;
    json["cache_read_input_tokens"] = cached;
  }
  json["output_tokens"] = usage.completion_tokens;
  json["output_tokens_details"] = {{"thinking_tokens", usage.reasoning_tokens}};
  return json;
}

OrderedJson stop_reason(const OutputFinish& finish, bool called) {
  if (std::holds_alternative<std::string>(finish.stop_reason)) return "stop_sequence";
  if (finish.finish_reason == "length") return "max_tokens";
  if (finish.finish_reason == "tool_calls") return "tool_use";
  if (finish.finish_reason != "stop") return nullptr;
  return called ? "tool_use" : "end_turn";
}

OrderedJson stop_sequence(const OutputFinish& finish) {
  if (const auto* text = std::get_if<std::string>(&finish.stop_reason)) return *text;
  return nullptr;
}

void append_event(std::string& out, std::string_view name, const OrderedJson& data) {
  out.append("event: ").append(name).append("\ndata: ").append(dump_json(data)).append("\n\n");
}

class MessagesFormat : public AnswerFormat {
 public:
  explicit MessagesFormat(AnswerIdentity identity)
      : identity_(std::move(identity)), id_("msg_" + identity_.id), signature_(random_id()) {}

  [[nodiscard]] bool wants_usage() const override { return true; }

  void append_role(std::string& out, int /*choice*/, const PromptReport& /*prompt*/,
                   const Usage* usage) override {
    out += R"(event: message_start
data: {"type":"message_start","message":)";
    append_message(out, "", nullptr, nullptr, *usage);
    out += "}\n\n";
  }

  void append_step(std::string& out, int /*choice*/, const StepContent& step,
                   const Usage* /*usage*/) override {
    for (const OutputDelta& delta : step.deltas) {
      if (delta.kind == Kind::call_open) {
        open_block(
            out,
            {{"type", "tool_use"}, {"id", delta.id}, {"name", delta.name}, {"input", OrderedJson::object()}},
            Kind::call_arguments);
        called_ = true;
      } else if (!delta.text.empty()) {
        append_text(out, delta);
      }
    }
  }

  void append_finish(std::string& out, int /*choice*/, const OutputFinish& finish,
                     const Usage* usage) override {
    close_block(out);
    OrderedJson event{{"type", "message_delta"}};
    event["delta"] = {{"stop_reason", stop_reason(finish, called_)},
                      {"stop_sequence", stop_sequence(finish)}};
    event["usage"] = usage_json(*usage);
    append_event(out, "message_delta", event);
    out += "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
  }

  void append_usage(std::string& /*out*/, const Usage& /*usage*/) override {}
  void append_end(std::string& /*out*/) override {}
  void append_error(std::string& out, const ApiError& error) override {
    out += "event: error\ndata: " + error_json(error, ErrorForm::anthropic) + "\n\n";
  }

  [[nodiscard]] std::string whole(std::span<const WholeChoice> choices, const Usage& usage) override {
    GLINT_CHECK(choices.size() == 1);
    const OutputResult& result = choices[0].result;
    std::string content;
    const auto add = [&content](const OrderedJson& block) {
      if (!content.empty()) content += ',';
      content += dump_json(block);
    };
    if (result.reasoning) {
      add({{"type", "thinking"}, {"thinking", *result.reasoning}, {"signature", signature_}});
    }
    if (result.content && !result.content->empty()) add({{"type", "text"}, {"text", *result.content}});
    for (const OutputToolCall& call : result.tool_calls) {
      add({{"type", "tool_use"}, {"id", call.id}, {"name", call.name}});
      // As they are: no reader of ours keeps every digit of a number.
      content.back() = ',';
      content.append("\"input\":").append(call.arguments).append("}");
    }
    const OutputFinish& finish = choices[0].finish;
    std::string out;
    append_message(out, content, stop_reason(finish, !result.tool_calls.empty()), stop_sequence(finish),
                   usage);
    return out;
  }

  [[nodiscard]] HttpResponse refusal(const ApiError& error) override {
    return error_response(error, ErrorForm::anthropic);
  }
  [[nodiscard]] std::vector<HttpHeader> headers() const override { return {{"request-id", identity_.id}}; }

 private:
  /// `content`: the JSON text of the blocks, without the brackets.
  void append_message(std::string& out, std::string_view content, const OrderedJson& reason,
                      const OrderedJson& sequence, const Usage& usage) const {
    out += "{\"id\":";
    append_json_text(out, id_);
    out += R"(,"type":"message","role":"assistant","model":)";
    append_json_text(out, identity_.model);
    out.append(",\"content\":[").append(content).append("],\"stop_reason\":").append(dump_json(reason));
    out.append(",\"stop_sequence\":").append(dump_json(sequence));
    out.append(",\"usage\":").append(dump_json(usage_json(usage))).append("}");
  }

  /// `takes`: the deltas that may go to it.
  void open_block(std::string& out, OrderedJson block, Kind takes) {
    close_block(out);
    OrderedJson event{{"type", "content_block_start"}};
    event["index"] = index_;
    event["content_block"] = std::move(block);
    append_event(out, "content_block_start", event);
    open_ = takes;
  }

  void close_block(std::string& out) {
    if (!open_) return;
    if (*open_ == Kind::reasoning) {
      OrderedJson event{{"type", "content_block_delta"}};
      event["index"] = index_;
      event["delta"] = {{"type", "signature_delta"}, {"signature", signature_}};
      append_event(out, "content_block_delta", event);
    }
    append_event(out, "content_block_stop", {{"type", "content_block_stop"}, {"index", index_}});
    ++index_;
    open_.reset();
  }

  /// The event of every token; built as text.
  void append_text(std::string& out, const OutputDelta& delta) {
    if (delta.kind == Kind::reasoning && open_ != Kind::reasoning) {
      open_block(out, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, Kind::reasoning);
    } else if (delta.kind == Kind::content && open_ != Kind::content) {
      open_block(out, {{"type", "text"}, {"text", ""}}, Kind::content);
    }
    GLINT_CHECK(open_ == delta.kind);
    out += "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":";
    append_json_number(out, index_);
    out += ",\"delta\":{\"type\":";
    out += delta.kind == Kind::reasoning ? R"("thinking_delta","thinking":)"
           : delta.kind == Kind::content ? R"("text_delta","text":)"
                                         : R"("input_json_delta","partial_json":)";
    append_json_text(out, delta.text);
    out += "}}\n\n";
  }

  AnswerIdentity identity_;
  std::string id_;
  std::string signature_;
  std::optional<Kind> open_;  // what the open block takes
  int64_t index_ = 0;         // of the open block, or of the next
  bool called_ = false;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_messages_format(AnswerIdentity identity) {
  return std::make_unique<MessagesFormat>(std::move(identity));
}

}  // namespace glint
