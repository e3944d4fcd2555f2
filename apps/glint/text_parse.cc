// glint text parse: what a client gets of an answer: reasoning, content and tool calls.

#include <utility>

#include "text/chat_request.h"
#include "text/output_stream.h"
#include "text/python_json.h"
#include "text_case.h"
#include "text_commands.h"

namespace glint {

namespace {

const OrderedJson& field(const OrderedJson& object, const char* name) {
  static const OrderedJson kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

bool flag(const OrderedJson& object, const char* name, bool otherwise) {
  const OrderedJson& value = field(object, name);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) refuse(name, name, " must be true or false");
  return value.get<bool>();
}

std::shared_ptr<const StopStrings> stop_strings(const OrderedJson& stop) {
  std::vector<std::string> strings;
  const auto add = [&](const OrderedJson& value) {
    if (!value.is_string() || value.empty()) refuse("stop", "stop must be a string or a list of strings");
    if (value.get_ref<const std::string&>().empty()) refuse("stop", "stop: a stop string must not be empty");
    strings.push_back(value.get<std::string>());
  };
  if (stop.is_array()) {
    for (const OrderedJson& value : stop) add(value);
  } else if (!stop.is_null()) {
    add(stop);
  }
  return std::make_shared<StopStrings>(std::move(strings));
}

OutputStreamOptions stream_options(const OrderedJson& line, const OrderedJson& request) {
  if (const OrderedJson& endpoint = field(line, "endpoint"); !endpoint.is_null()) {
    refuse("endpoint", "endpoint: only answers of /v1/chat/completions are parsed");
  }
  if (!field(request, "thinking_token_budget").is_null()) {
    refuse("thinking_token_budget", "thinking_token_budget is not implemented");
  }
  OutputStreamOptions options;
  const std::vector<ToolDefinition> tools = parse_tools(field(request, "tools"));
  options.parser.tools = std::make_shared<ToolSet>(tools);
  options.parser.tool_choice = parse_tool_choice(field(request, "tool_choice"), tools);
  options.parser.parallel_tool_calls = flag(request, "parallel_tool_calls", true);
  options.parser.include_reasoning = flag(request, "include_reasoning", true);
  options.parser.starts_in_reasoning = flag(line, "starts_in_reasoning", true);
  options.stop = stop_strings(field(request, "stop"));
  options.include_stop_str_in_output = flag(request, "include_stop_str_in_output", false);
  return options;
}

StreamEnd stream_end(const OrderedJson& line) {
  const OrderedJson& finish = field(line, "engine_finish");
  if (finish.is_null() || finish == "stop") return {StreamEnd::Reason::stop, {}};
  if (finish == "length") return {StreamEnd::Reason::length, {}};
  if (finish == "abort") return {StreamEnd::Reason::abort, {}};
  refuse("engine_finish", "engine_finish must be stop, length or abort");
}

OrderedJson optional_text(const std::optional<std::string>& text) {
  return text ? OrderedJson(*text) : OrderedJson();
}

/// The calls: decoded arguments, and the exact text. For a stream the text is what its deltas add up to.
OrderedJson calls_of(const OutputResult& result, const std::vector<std::string>* streamed) {
  OrderedJson calls = OrderedJson::array();
  for (size_t i = 0; i < result.tool_calls.size(); ++i) {
    const OutputToolCall& call = result.tool_calls[i];
    OrderedJson entry;
    if (streamed != nullptr) entry["index"] = i;
    entry["name"] = call.name;
    entry["arguments"] = parse_python_json(call.arguments, "arguments");
    entry["arguments_text"] = streamed == nullptr ? call.arguments : (*streamed)[i];
    calls.push_back(std::move(entry));
  }
  return calls;
}

OrderedJson parse(const std::shared_ptr<const Tokenizer>& model, const OrderedJson& line) {
  const OrderedJson request = line.value("request", OrderedJson::object());
  if (!request.is_object()) refuse("request", "request must be an object");
  const CaseTokens tokens = case_tokens(line, model);
  OutputStream stream(tokens.tokenizer, std::make_shared<OutputTags>(*tokens.tokenizer),
                      stream_options(line, request));
  std::vector<OutputDelta> deltas;
  const auto keep = [&](std::vector<OutputDelta>&& more) {
    for (OutputDelta& delta : more) deltas.push_back(std::move(delta));
  };
  for (const std::vector<TokenId>& group : tokens.groups) keep(stream.push(group));
  keep(stream.finish(stream_end(line)));

  OutputResult result = stream.result();
  const bool is_stream = !line.contains("raw_output");
  std::vector<std::string> arguments(result.tool_calls.size());
  if (is_stream) {
    std::string content;
    for (const OutputDelta& delta : deltas) {
      if (delta.kind == OutputDelta::Kind::content) content += delta.text;
      if (delta.kind == OutputDelta::Kind::call_arguments)
        arguments[static_cast<size_t>(delta.index)] += delta.text;
    }
    if (!content.empty()) result.content = std::move(content);
  }
  OrderedJson out;
  out["reasoning"] = optional_text(result.reasoning);
  out["content"] = optional_text(result.content);
  out["tool_calls"] = calls_of(result, is_stream ? &arguments : nullptr);
  out["finish_reason"] = stream.finish_info().finish_reason;
  const StopReason& reason = stream.finish_info().stop_reason;
  if (const auto* text = std::get_if<std::string>(&reason)) out["stop_reason"] = *text;
  return out;
}

void run(const TextFlags& flags) {
  const std::shared_ptr<const Tokenizer> model = flags.model.empty() ? nullptr : Tokenizer::load(flags.model);
  for_each_line(flags, [&](std::string_view line, std::string_view place) {
    return answer_case(line, place, [&](const OrderedJson& parsed) { return parse(model, parsed); });
  });
}

}  // namespace

void add_text_parse(CLI::App& text) {
  CLI::App* const command =
      add_text_command(text, "parse", "Model answers to reasoning, content and tool calls", run);
  command->footer(
      "Each line is {\"raw_output\": TEXT} or, as a stream, {\"chunks\": [TEXT, ...]} or "
      "{\"token_bytes_hex\": [HEX, ...]},\n"
      "with \"request\" (tools, tool_choice, parallel_tool_calls, stop, ...), \"engine_finish\" (stop or "
      "length) and\n"
      "\"literal_tags\" where wanted; the answer is {\"reasoning\", \"content\", \"tool_calls\", "
      "\"finish_reason\"}, or\n"
      "{\"error\": {\"message\", \"param\"}}. An \"id\" of the line is repeated. The text starts inside "
      "<think>, unless\n"
      "\"starts_in_reasoning\" is false. Without --model the tags are tokens and other text is cut into "
      "small pieces.");
}

}  // namespace glint
