#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "text/python_json.h"
#include "text/python_text.h"
#include "text/template_rehearsal.h"
#include "text/template_variables.h"

namespace glint {

namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";

// The text of the tools block is part of the format: the model was trained on these bytes.
constexpr std::string_view kToolsHead =
    "<|system|>\n"
    "# Tools\n\n"
    "You may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n"
    "<tools>\n";
constexpr std::string_view kToolsTail =
    "</tools>\n\n"
    "For each function call, output the function name and arguments within the following XML format:\n"
    "<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>"
    "<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>";

/// One request on its way to text.
class Renderer {
 public:
  Renderer(const ChatRequest& request, bool has_low_effort, bool has_thinking_switch)
      : request_(request), has_low_effort_(has_low_effort), has_thinking_switch_(has_thinking_switch) {}

  std::string render() {
    out_ = "[gMASK]<sop><|system|>Reasoning Effort: ";
    out_ += effort();
    if (!request_.tools.empty()) tools_block();
    for (size_t at = 0; at < request_.messages.size();) at = message(at);
    if (request_.add_generation_prompt) {
      out_ += "<|assistant|>";
      out_ += kThinkOpen;
      const bool closed = has_thinking_switch_ && !request_.variables.enable_thinking.value_or(true);
      if (closed) out_ += kThinkClose;
    }
    return std::move(out_);
  }

 private:
  std::string_view effort() const {
    const std::string& effort = request_.variables.reasoning_effort;
    if (effort == "high") return "High";
    if (effort == "low" && has_low_effort_) return "Low";
    return "Max";
  }

  void tool_line(const ToolDefinition& tool) {
    out_ += "{\"name\": \"";
    append_json_escaped(out_, tool.name);
    out_ += "\", \"description\": ";
    append_python_dumps(out_, tool.description);
    out_ += ", \"parameters\": ";
    append_python_dumps(out_, tool.parameters);
    out_ += "}\n";
  }

  void tools_block() {
    out_ += kToolsHead;
    for (const ToolDefinition& tool : request_.tools) {
      if (!tool.defer_loading) tool_line(tool);
    }
    out_ += kToolsTail;
  }

  /// Renders the message at `at`, with a whole run for tool messages, and returns the index after it.
  size_t message(size_t at) {
    const ChatMessage& message = request_.messages[at];
    switch (message.role) {
      case ChatRole::system:
        out_.append("<|system|>").append(message.text);
        break;
      case ChatRole::user:
        out_.append("<|user|>").append(message.text);
        break;
      case ChatRole::assistant:
        assistant(message, at);
        break;
      case ChatRole::tool:
        return tool_run(at);
    }
    return at + 1;
  }

  void assistant(const ChatMessage& message, size_t at) {
    std::string_view content = message.text;
    std::string_view reasoning;
    if (message.reasoning) {
      reasoning = *message.reasoning;
    } else if (const size_t first = content.find(kThinkClose); first != std::string_view::npos) {
      reasoning = content.substr(0, first);
      if (const size_t open = reasoning.rfind(kThinkOpen); open != std::string_view::npos) {
        reasoning.remove_prefix(open + kThinkOpen.size());
      }
      content.remove_prefix(content.rfind(kThinkClose) + kThinkClose.size());
    }
    const bool keep = !request_.variables.clear_thinking || is_after_last_user(at);
    out_.append("<|assistant|>").append(kThinkOpen);
    if (keep) out_ += reasoning;
    out_.append(kThinkClose).append(python_strip(content));
    for (const ChatToolCall& call : message.tool_calls) tool_call(call);
  }

  void tool_call(const ChatToolCall& call) {
    out_.append("<tool_call>").append(call.name);
    for (const auto& [key, value] : call.arguments.get_ref<const OrderedJson::object_t&>()) {
      out_.append("<arg_key>").append(key).append("</arg_key><arg_value>");
      if (value.is_string()) {
        out_ += value.get_ref<const std::string&>();
      } else {
        append_python_dumps(out_, value);
      }
      out_ += "</arg_value>";
    }
    out_ += "</tool_call>";
  }

  bool is_after_last_user(size_t at) {
    if (!last_user_) {
      last_user_ = -1;
      for (size_t i = 0; i < request_.messages.size(); ++i) {
        if (request_.messages[i].role == ChatRole::user) last_user_ = static_cast<ptrdiff_t>(i);
      }
    }
    return static_cast<ptrdiff_t>(at) > *last_user_;
  }

  size_t tool_run(size_t begin) {
    std::vector<const ChatToolResult*> results;
    size_t end = begin;
    for (; end < request_.messages.size() && request_.messages[end].role == ChatRole::tool; ++end) {
      for (const ChatToolResult& result : request_.messages[end].results) results.push_back(&result);
    }
    if (begin > 0 && request_.messages[begin - 1].role == ChatRole::assistant) {
      sort_by_call(request_.messages[begin - 1].tool_calls, results);
    }
    out_ += "<|observation|>";
    for (const ChatToolResult* result : results) tool_response(*result);
    return end;
  }

  /// Puts the results into the order of the calls, if ids say without doubt which belongs to which.
  static void sort_by_call(const std::vector<ChatToolCall>& calls,
                           std::vector<const ChatToolResult*>& results) {
    std::unordered_map<std::string_view, size_t> order;
    for (const ChatToolCall& call : calls) {
      if (call.id.empty() || !order.emplace(call.id, order.size()).second) return;
    }
    std::vector<const ChatToolResult*> sorted(calls.size(), nullptr);
    for (const ChatToolResult* result : results) {
      const auto place = order.find(result->id);
      if (result->id.empty() || place == order.end() || sorted[place->second] != nullptr) return;
      sorted[place->second] = result;
    }
    std::erase(sorted, nullptr);
    results = std::move(sorted);
  }

  void tool_response(const ChatToolResult& result) {
    out_ += "<tool_response>";
    if (result.is_references) {
      references(result.references);
    } else {
      out_ += result.text;
    }
    out_ += "</tool_response>";
  }

  void references(const std::vector<std::string>& names) {
    if (request_.tools.empty()) refuse("tools", "a tool message refers to tools, but the request has none");
    out_ += "<tools>\n";
    for (const std::string& name : names) {
      for (const ToolDefinition& tool : request_.tools) {
        if (tool.name == name) tool_line(tool);
      }
    }
    out_ += "</tools>";
  }

  const ChatRequest& request_;
  bool has_low_effort_;
  bool has_thinking_switch_;
  std::string out_;
  std::optional<ptrdiff_t> last_user_;
};

void check_final_message(const ChatRequest& request) {
  const ChatMessage& last = request.messages.back();
  if (last.role != ChatRole::assistant) {
    refuse("continue_final_message",
           "continue_final_message: only a last message of the assistant can be continued");
  }
  if (!last.tool_calls.empty()) {
    refuse("continue_final_message",
           "continue_final_message: the last message ends in tool calls, not in text");
  }
}

/// tokenizer_config.json holds the template as a string, or as a list of named ones of which "default"
/// counts.
std::string template_of_config(const std::filesystem::path& path) {
  const Json config = parse_json(read_file(path), path.string());
  const auto entry = config.find("chat_template");
  if (entry != config.end() && entry->is_string()) return entry->get<std::string>();
  if (entry != config.end() && entry->is_array()) {
    for (const Json& named : *entry) {
      if (named.is_object() && named.value("name", Json()) == "default" &&
          named.value("template", Json()).is_string()) {
        return named["template"].get<std::string>();
      }
    }
  }
  fail(ErrorKind::not_found, path.parent_path().string(),
       ": no chat template: expected chat_template.jinja, or \"chat_template\" in tokenizer_config.json");
}

}  // namespace

ChatTemplate ChatTemplate::load(const std::filesystem::path& model_dir) {
  const std::filesystem::path file = model_dir / "chat_template.jinja";
  if (std::filesystem::exists(file)) return from_source(read_file(file), file.string());
  const std::filesystem::path config = model_dir / "tokenizer_config.json";
  if (std::filesystem::exists(config)) return from_source(template_of_config(config), config.string());
  fail(ErrorKind::not_found, model_dir.string(),
       ": no chat template: expected chat_template.jinja, or \"chat_template\" in tokenizer_config.json");
}

ChatTemplate ChatTemplate::from_flag(const std::string& file_or_text) {
  if (std::filesystem::is_regular_file(file_or_text))
    return from_source(read_file(file_or_text), file_or_text);
  for (const char* const mark : {"{{", "{%", "{#"}) {
    if (file_or_text.find(mark) != std::string::npos) return from_source(file_or_text, "--chat-template");
  }
  fail(ErrorKind::not_found, "'", file_or_text, "' is neither a file nor the text of a Jinja template");
}

ChatTemplate ChatTemplate::from_source(std::string_view source, std::string_view what) {
  std::optional<ChatTemplate> native;
  try {
    native = recognise(source, what);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
  }
  if (!native) return interpreted(source, what);
  try {
    ChatTemplate other = interpreted(source, what);
    const std::string difference = first_difference(*native, other);
    if (difference.empty()) return *native;
    other.note_ = cat(what, ": it looks like GLM-5's and renders otherwise (", difference,
                      "): the interpreter renders it");
    return other;
  } catch (const Error& error) {
    native->note_ =
        cat("GLM-5's rules, natively; the template itself could not be run beside them: ", error.what());
    return *native;
  }
}

ChatTemplate ChatTemplate::interpreted(std::string_view source, std::string_view what) {
  ChatTemplate out(true, true);
  out.interpreter_ = jinja::Template::compile(source, what);
  out.note_ = cat(what, ": another family's, the interpreter renders it");
  return out;
}

ChatTemplate ChatTemplate::recognise(std::string_view source, std::string_view what) {
  // Every GLM-5 template must contain these; GLM-4 has no effort line, other families none of them.
  static constexpr std::array<std::string_view, 8> kMarks = {
      "[gMASK]<sop>",    "Reasoning Effort:", "<arg_key>",        "<|assistant|>",
      "<|observation|>", "<tool_response>",   "reasoning_effort", "clear_thinking"};
  for (const std::string_view mark : kMarks) {
    if (source.find(mark) != std::string_view::npos) continue;
    fail(ErrorKind::unsupported, what, ": the chat template is not one of GLM-5.2 or GLM-5.3: \"", mark,
         "\" does not occur in it");
  }
  const auto has = [&](std::string_view text) { return source.find(text) != std::string_view::npos; };
  return {has("'low'") || has("\"low\""), has("enable_thinking")};
}

RenderedChat ChatTemplate::render(const ChatRequest& request) const {
  GLINT_CHECK(!request.messages.empty());
  if (request.continue_final_message) check_final_message(request);
  RenderedChat out;
  out.prompt =
      interpreter_ ? interpret(request) : Renderer(request, has_low_effort_, has_thinking_switch_).render();
  out.starts_in_reasoning = prompt_opens_reasoning(out.prompt);
  return out;
}

std::string ChatTemplate::interpret(const ChatRequest& request) const {
  try {
    std::string prompt = interpreter_->render(template_variables(request));
    if (request.continue_final_message) cut_behind_final_message(request, prompt);
    return prompt;
  } catch (const jinja::Raised& error) {
    refuse("messages", "the chat template refuses the request: ", error.what());
  } catch (const RequestError&) {
    throw;
  } catch (const Error& error) {
    refuse("messages", "the chat template fails on the request: ", error.what());
  }
}

bool prompt_opens_reasoning(std::string_view prompt) {
  static constexpr std::array<std::string_view, 4> kRoles = {"<|assistant|>", "<|user|>", "<|observation|>",
                                                             "<|system|>"};
  size_t at = prompt.rfind("<|");
  std::string_view role;
  while (at != std::string_view::npos) {
    const std::string_view rest = prompt.substr(at);
    const auto found = std::find_if(kRoles.begin(), kRoles.end(),
                                    [&](std::string_view name) { return rest.starts_with(name); });
    if (found != kRoles.end()) {
      role = *found;
      break;
    }
    at = at == 0 ? std::string_view::npos : prompt.rfind("<|", at - 1);
  }
  if (role != kRoles[0]) return false;
  const std::string_view turn = prompt.substr(at);
  const size_t open = turn.rfind(kThinkOpen);
  const size_t close = turn.rfind(kThinkClose);
  return open != std::string_view::npos && (close == std::string_view::npos || open > close);
}

}  // namespace glint
