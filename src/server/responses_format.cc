#include "server/responses_format.h"

#include <tuple>
#include <utility>

#include "base/error.h"
#include "server/json_append.h"
#include "server/response_object.h"
#include "server/responses_items.h"
#include "text/python_json.h"

namespace glint {

namespace {

using Kind = OutputDelta::Kind;

class ResponsesFormat : public AnswerFormat {
 public:
  ResponsesFormat(AnswerIdentity identity, ResponsesRequest request, std::shared_ptr<ResponseStore> store)
      : identity_(std::move(identity)),
        request_(std::move(request)),
        object_(identity_, request_.echo),
        store_(std::move(store)) {}

  void started() override {
    if (!request_.background) return;
    ResponseState state;
    state.status = "in_progress";
    std::string text;
    object_.append(text, state);
    store_->update(object_.id(), std::move(text));
  }

  [[nodiscard]] bool wants_usage() const override { return true; }

  void append_role(std::string& out, int /*choice*/, const PromptReport& /*prompt*/,
                   const Usage* /*usage*/) override {
    for (const char* type : {"response.created", "response.in_progress"}) append_response(out, type, {});
  }

  void append_step(std::string& out, int /*choice*/, const StepContent& step,
                   const Usage* /*usage*/) override {
    for (const OutputDelta& delta : step.deltas) {
      if (delta.kind == Kind::call_open) {
        open_call(out, delta);
      } else if (!delta.text.empty()) {
        append_text(out, delta);
      }
    }
  }

  void append_finish(std::string& out, int /*choice*/, const OutputFinish& finish,
                     const Usage* usage) override {
    const bool complete = finish.finish_reason == "stop" || finish.finish_reason == "tool_calls";
    close_item(out, status_of(open_, finish));
    const ResponseState state = final_state(finish, *usage);
    const char* type = complete                   ? "response.completed"
                       : state.status == "failed" ? "response.failed"
                                                  : "response.incomplete";
    append_response(out, type, state);
    keep(state);
  }

  void append_usage(std::string& /*out*/, const Usage& /*usage*/) override {}
  void append_end(std::string& /*out*/) override {}

  void append_error(std::string& out, const ApiError& error) override {
    begin_event(out, "error");
    out.append(",\"code\":").append(dump_json(OrderedJson(error.type)));
    out.append(",\"message\":").append(dump_json(OrderedJson(error.message)));
    out += ",\"param\":null}\n\n";
    ResponseState state;
    state.status = "failed";
    state.error = &error;
    state.output = &output_;
    append_response(out, "response.failed", state);
    keep(state);
  }

  [[nodiscard]] std::string whole(std::span<const WholeChoice> choices, const Usage& usage) override {
    GLINT_CHECK(choices.size() == 1);
    const OutputResult& result = choices[0].result;
    const OutputFinish& finish = choices[0].finish;
    // What was cut is the last thing that came.
    const auto status = [&](Kind kind) {
      return result.last == kind ? status_of(kind, finish) : "completed";
    };
    if (result.reasoning) {
      reasoning_ = *result.reasoning;
      output_.push_back(reasoning_item(new_id("rs_"), reasoning_, status(Kind::reasoning)));
    }
    if (result.content && !result.content->empty()) {
      content_ = *result.content;
      output_.push_back(message_item(new_id("msg_"), text_part(content_), status(Kind::content)));
    }
    for (size_t i = 0; i < result.tool_calls.size(); ++i) {
      const bool cut = finish.cut_in_call && i + 1 == result.tool_calls.size();
      const OutputToolCall& call = result.tool_calls[i];
      // Not mended: what came of it, as it is streamed.
      const std::string& arguments = cut ? result.last_arguments : call.arguments;
      output_.push_back(
          function_call_item(call_item(call.id, call.name, arguments), cut ? "incomplete" : "completed"));
      if (!cut) add_call(call.id, call.name, arguments);
    }
    const ResponseState state = final_state(choices[0].finish, usage);
    keep(state);
    std::string out;
    object_.append(out, state);
    return out;
  }

  [[nodiscard]] HttpResponse refusal(const ApiError& error) override {
    if (request_.background) {
      ResponseState state;
      state.status = "failed";
      state.error = &error;
      keep(state);
    }
    return error_response(error);
  }

 private:
  /// Of the last item. A call that was not cut is whole, however the answer ended.
  static const char* status_of(std::optional<Kind> kind, const OutputFinish& finish) {
    const bool complete = finish.finish_reason == "stop" || finish.finish_reason == "tool_calls";
    const bool whole = kind == Kind::call_arguments ? !finish.cut_in_call : complete;
    return whole ? "completed" : "incomplete";
  }

  static std::string new_id(const char* prefix) { return prefix + random_id(); }

  [[nodiscard]] FunctionCallItem call_item(const std::string& id, const std::string& name,
                                           const std::string& arguments) const {
    FunctionCallItem item{new_id("fc_"), id, name, "", arguments};
    if (const auto split = request_.spaces.find(name); split != request_.spaces.end()) {
      std::tie(item.space, item.name) = split->second;
    }
    return item;
  }

  void add_call(const std::string& id, const std::string& name, const std::string& arguments) {
    OrderedJson function{{"name", name}, {"arguments", arguments}};
    calls_.push_back({{"id", id}, {"type", "function"}, {"function", std::move(function)}});
  }

  ResponseState final_state(const OutputFinish& finish, const Usage& usage) const {
    ResponseState state;
    state.status = "completed";
    if (finish.finish_reason == "length") {
      state.status = "incomplete";
      state.incomplete_reason = "max_output_tokens";
    } else if (finish.finish_reason == "abort") {
      state.status = "cancelled";
    } else if (finish.finish_reason == "error") {
      state.status = "failed";
    }
    state.usage = &usage;
    state.output = &output_;
    return state;
  }

  void keep(const ResponseState& state) {
    if (!request_.store) return;
    StoredResponse entry;
    object_.append(entry.response, state);
    entry.finished = true;
    entry.background = request_.background;
    if (state.status != "failed") {
      entry.turns = std::move(request_.turns);
      entry.turns.back() = ',';  // the bracket; there is at least one message in front of it
      append_python_dumps(entry.turns, assistant_turn(reasoning_, content_, calls_));
      entry.turns += ']';
    }
    if (request_.background) {
      store_->finish(object_.id(), std::move(entry));
    } else {
      store_->put(object_.id(), std::move(entry));
    }
  }

  // ---------------------------------------------------------------------------------------------- events

  void begin_event(std::string& out, std::string_view type) {
    out.append("event: ")
        .append(type)
        .append("\ndata: {\"type\":\"")
        .append(type)
        .append("\",\"sequence_number\":");
    append_json_number(out, sequence_++);
  }

  /// An event of the open item.
  void begin_item_event(std::string& out, std::string_view type) {
    begin_event(out, type);
    out.append(",\"item_id\":\"").append(item_.id).append("\",\"output_index\":");
    append_json_number(out, static_cast<int64_t>(output_.size()));
    if (open_ != Kind::call_arguments) out += ",\"content_index\":0";
  }

  void append_response(std::string& out, std::string_view type, const ResponseState& state) {
    begin_event(out, type);
    out += ",\"response\":";
    object_.append(out, state);
    out += "}\n\n";
  }

  void append_item(std::string& out, std::string_view type, std::string_view item) {
    begin_event(out, type);
    out += ",\"output_index\":";
    append_json_number(out, static_cast<int64_t>(output_.size()));
    out.append(",\"item\":").append(item).append("}\n\n");
  }

  void append_part(std::string& out, std::string_view type, std::string_view text) {
    begin_item_event(out, type);
    out.append(",\"part\":").append(text_part(text)).append("}\n\n");
  }

  void open_call(std::string& out, const OutputDelta& delta) {
    close_item(out, "completed");
    item_ = call_item(delta.id, delta.name, "");
    flat_name_ = delta.name;
    open_ = Kind::call_arguments;
    append_item(out, "response.output_item.added", function_call_item(item_, "in_progress"));
  }

  void open_text(std::string& out, Kind kind) {
    close_item(out, "completed");
    open_ = kind;
    text_.clear();
    if (kind == Kind::reasoning) {
      item_.id = new_id("rs_");
      append_item(out, "response.output_item.added", reasoning_item(item_.id, "", "in_progress"));
    } else {
      item_.id = new_id("msg_");
      append_item(out, "response.output_item.added", message_item(item_.id, "", "in_progress"));
      append_part(out, "response.content_part.added", "");
    }
  }

  /// The event of every token.
  void append_text(std::string& out, const OutputDelta& delta) {
    if (delta.kind != Kind::call_arguments && open_ != delta.kind) open_text(out, delta.kind);
    GLINT_CHECK(open_ == delta.kind);
    (delta.kind == Kind::call_arguments ? item_.arguments : text_) += delta.text;
    begin_item_event(out, delta.kind == Kind::reasoning ? "response.reasoning_text.delta"
                          : delta.kind == Kind::content ? "response.output_text.delta"
                                                        : "response.function_call_arguments.delta");
    out += ",\"delta\":";
    append_json_text(out, delta.text);
    out += delta.kind == Kind::content ? ",\"logprobs\":[]}\n\n" : "}\n\n";
  }

  void close_item(std::string& out, std::string_view status) {
    if (!open_) return;
    std::string item;
    if (*open_ == Kind::call_arguments) {
      begin_item_event(out, "response.function_call_arguments.done");
      out.append(",\"name\":").append(dump_json(OrderedJson(item_.name))).append(",\"arguments\":");
      append_json_text(out, item_.arguments);
      out += "}\n\n";
      item = function_call_item(item_, status);
      // A call that was cut has no whole arguments; the turn goes on without it.
      if (status == "completed") add_call(item_.call_id, flat_name_, item_.arguments);
    } else {
      const bool reasons = *open_ == Kind::reasoning;
      begin_item_event(out, reasons ? "response.reasoning_text.done" : "response.output_text.done");
      out += ",\"text\":";
      append_json_text(out, text_);
      out += reasons ? "}\n\n" : ",\"logprobs\":[]}\n\n";
      if (!reasons) append_part(out, "response.content_part.done", text_);
      item = reasons ? reasoning_item(item_.id, text_, status)
                     : message_item(item_.id, text_part(text_), status);
      (reasons ? reasoning_ : content_) += text_;
    }
    append_item(out, "response.output_item.done", item);
    output_.push_back(std::move(item));
    open_.reset();
  }

  AnswerIdentity identity_;
  ResponsesRequest request_;
  ResponseObject object_;
  std::shared_ptr<ResponseStore> store_;
  int64_t sequence_ = 0;
  std::vector<std::string> output_;  // finished items
  // The open item.
  std::optional<Kind> open_;
  FunctionCallItem item_;  // of texts only the id
  std::string flat_name_;
  std::string text_;
  // The whole turn.
  std::string reasoning_, content_;
  OrderedJson calls_;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_responses_format(AnswerIdentity identity, ResponsesRequest request,
                                                    std::shared_ptr<ResponseStore> store) {
  return std::make_unique<ResponsesFormat>(std::move(identity), std::move(request), std::move(store));
}

std::string queued_response(const AnswerIdentity& identity, const ResponsesRequest& request) {
  std::string out;
  ResponseState state;
  state.status = "queued";
  ResponseObject(identity, request.echo).append(out, state);
  return out;
}

}  // namespace glint
