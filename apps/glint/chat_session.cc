#include "chat_session.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "chat_text.h"

namespace glint {

namespace {

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

bool resets(const std::string& text) {
  return text == "default" || text == "off";
}

/// Only what a conversation may hold; the server checks the rest.
void check_messages(const OrderedJson& messages, const std::string& place) {
  if (!messages.is_array()) fail(ErrorKind::bad_input, place, ": no list \"messages\"");
  for (const OrderedJson& message : messages) {
    const bool good = message.is_object() && message.contains("role") && message.at("role").is_string();
    if (!good) fail(ErrorKind::bad_input, place, ": a message without \"role\"");
    const std::string role = message.at("role");
    if (role != "user" && role != "assistant" && role != "tool") {
      fail(ErrorKind::bad_input, place, ": a message of the role ", harmless_line(role),
           ": expected user, assistant or tool");
    }
  }
}

std::string role_of(const OrderedJson& messages) {
  return messages.empty() ? std::string() : messages.back().at("role").get<std::string>();
}

}  // namespace

std::string chat_help() {
  return "/reset               forget the conversation (the settings stay)\n"
         "/regenerate          answer the last message again\n"
         "/system [TEXT]       the system message; without TEXT none\n"
         "/effort LEVEL        low, high or max; default: the server's\n"
         "/temperature NUMBER  0 to 2; default: the server's\n"
         "/max N               tokens of an answer, at most; default: the server's\n"
         "/tools FILE|off      declare the tools of a JSON file (a list as in the API's \"tools\")\n"
         "/result TEXT         what a tool that the model has called says\n"
         "/reasoning VIEW      show, fold or hide\n"
         "/usage on|off        the line of figures below an answer\n"
         "/save FILE, /load FILE  the conversation with its settings, as JSON\n"
         "/settings            what is set\n"
         "/quit                leave; Ctrl-D does too\n"
         "A message that begins with '/' is written with two. A backslash at a line's end goes on in a new "
         "line; \"\"\" alone on\n"
         "a line begins and ends a message of many lines. Ctrl-C stops an answer; a second one leaves.";
}

ChatStep ChatSession::take(const std::string& input) {
  if (trimmed(input).empty()) return {};
  if (input[0] != '/' || input.substr(0, 2) == "//") {
    messages_.push_back(
        {{"role", "user"}, {"content", utf8_lossy(input[0] == '/' ? input.substr(1) : input)}});
    return {ChatAction::answer, "", false};
  }
  const size_t space = std::min(input.find_first_of(" \n"), input.size());
  try {
    return command(input.substr(1, space - 1), trimmed(input.substr(space)));
  } catch (const Error& error) {
    return {ChatAction::none, harmless_line(error.what()), true};
  }
}

ChatStep ChatSession::command(const std::string& name, const std::string& rest) {
  const auto done = [](const std::string& reply) { return ChatStep{ChatAction::none, reply, false}; };
  if (name == "quit" || name == "exit") return {ChatAction::leave, "", false};
  if (name == "help" || name == "?") return done(chat_help());
  if (name == "settings") return done(state());
  if (name == "regenerate") return regenerate();
  if (name == "result") return tool_result(rest);
  if (name == "reset") {
    messages_.clear();
    return done("a new conversation");
  }
  if (name == "system") {
    set_system(rest);
    return done(rest.empty() ? "no system message" : "the system message is set");
  }
  if (name == "usage") {
    if (rest != "on" && rest != "off") fail(ErrorKind::bad_input, "/usage ", rest, ": expected on or off");
    usage_ = rest == "on";
    return done(cat("usage ", rest));
  }
  if (name == "effort") {
    set_effort(rest);
  } else if (name == "temperature") {
    set_temperature(rest);
  } else if (name == "max") {
    set_max_tokens(rest);
  } else if (name == "reasoning") {
    set_view(rest);
  } else if (name == "tools" && resets(rest)) {
    tools_.clear();
  } else if (name == "tools") {
    set_tools(rest);
    return done(cat(tools_.size(), " tools are declared"));
  } else if (name == "save") {
    save(rest);
    return done(cat("saved as ", harmless_line(rest)));
  } else if (name == "load") {
    load(rest);
    return done(cat("loaded: ", messages_.size(), " messages; ", state()));
  } else {
    fail(ErrorKind::bad_input, "no command /", name, "; /help lists them");
  }
  return done(cat(name, " ", harmless_line(rest)));
}

std::string ChatSession::state() const {
  const auto text = [](const auto& value) { return value ? cat(*value) : std::string("default"); };
  return cat("model ", harmless_line(model_), ", effort ", effort_.empty() ? "default" : effort_,
             ", temperature ", text(temperature_), ", max ", text(max_tokens_), ", tools ", tools_.size(),
             ", system ", system_.empty() ? std::string("none") : cat("\"", harmless_line(system_), "\""));
}

void ChatSession::set_effort(const std::string& text) {
  if (!resets(text) && text != "low" && text != "high" && text != "max") {
    fail(ErrorKind::bad_input, "effort ", text, ": expected low, high, max or default");
  }
  effort_ = resets(text) ? "" : text;
}

void ChatSession::set_temperature(const std::string& text) {
  if (resets(text)) return temperature_.reset();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= 0 && value <= 2)) {
    fail(ErrorKind::bad_input, "temperature ", text, ": expected a number from 0 to 2, or default");
  }
  temperature_ = value;
}

void ChatSession::set_max_tokens(const std::string& text) {
  if (resets(text)) return max_tokens_.reset();
  const bool digits =
      !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoll(text) < 1)
    fail(ErrorKind::bad_input, "max ", text, ": expected a number of tokens from 1, or default");
  max_tokens_ = std::stoll(text);
}

void ChatSession::set_view(const std::string& text) {
  if (text == "show") {
    view_ = ReasoningView::show;
  } else if (text == "fold") {
    view_ = ReasoningView::fold;
  } else if (text == "hide") {
    view_ = ReasoningView::hide;
  } else {
    fail(ErrorKind::bad_input, "reasoning ", text, ": expected show, fold or hide");
  }
}

void ChatSession::set_tools(const std::filesystem::path& path) {
  const OrderedJson tools = parse_ordered_json(read_file(path, 1 << 24), path.string());
  if (!tools.is_array() || tools.empty())
    fail(ErrorKind::bad_input, path.string(), ": expected a list of tools");
  tools_ = tools;
}

OrderedJson ChatSession::open_calls() const {
  size_t answered = 0;
  for (auto message = messages_.rbegin(); message != messages_.rend(); ++message) {
    if (message->at("role") == "tool") {
      ++answered;
      continue;
    }
    if (!message->contains("tool_calls")) break;
    OrderedJson open = OrderedJson::array();
    const OrderedJson& calls = message->at("tool_calls");
    for (size_t i = answered; i < calls.size(); ++i) open.push_back(calls[i]);
    return open;
  }
  return OrderedJson::array();
}

ChatStep ChatSession::tool_result(const std::string& text) {
  const OrderedJson open = open_calls();
  if (open.empty()) fail(ErrorKind::bad_input, "no tool call waits for a result");
  OrderedJson message{{"role", "tool"}, {"content", utf8_lossy(text)}};
  if (open.front().contains("id")) message["tool_call_id"] = open.front().at("id");
  messages_.push_back(message);
  if (open.size() > 1) return {ChatAction::none, cat(open.size() - 1, " more results are wanted"), false};
  return {ChatAction::answer, "", false};
}

ChatStep ChatSession::regenerate() {
  if (role_of(messages_) == "assistant") messages_.erase(messages_.size() - 1);
  if (messages_.empty()) fail(ErrorKind::bad_input, "there is nothing to answer yet");
  return {ChatAction::answer, "", false};
}

void ChatSession::add_answer(const ChatAnswer& answer) {
  messages_.push_back(answer.message);
}

std::string ChatSession::drop_last_message() {
  if (messages_.empty()) return {};
  const OrderedJson last = messages_.back();
  messages_.erase(messages_.size() - 1);
  const auto content = last.find("content");
  return content != last.end() && content->is_string() ? content->get<std::string>() : std::string();
}

OrderedJson ChatSession::request() const {
  OrderedJson body{{"model", model_}};
  OrderedJson messages = OrderedJson::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", utf8_lossy(system_)}});
  for (const OrderedJson& message : messages_) messages.push_back(message);
  body["messages"] = messages;
  if (!tools_.empty()) body["tools"] = tools_;
  if (!effort_.empty()) body["reasoning_effort"] = effort_;
  if (temperature_) body["temperature"] = *temperature_;
  if (max_tokens_) body["max_completion_tokens"] = *max_tokens_;
  return body;
}

void ChatSession::save(const std::filesystem::path& path) const {
  if (path.empty()) fail(ErrorKind::bad_input, "/save wants a file's name");
  if (std::filesystem::exists(path)) fail(ErrorKind::bad_input, path.string(), ": exists; give another name");
  OrderedJson all{{"model", model_}, {"system", system_}, {"effort", effort_}};
  if (temperature_) all["temperature"] = *temperature_;
  if (max_tokens_) all["max_tokens"] = *max_tokens_;
  all["tools"] = tools_;
  all["messages"] = messages_;
  write_file_atomically(path, all.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

void ChatSession::load(const std::filesystem::path& path) {
  if (path.empty()) fail(ErrorKind::bad_input, "/load wants a file's name");
  const OrderedJson all = parse_ordered_json(read_file(path, size_t{1} << 28), path.string());
  if (!all.is_object() || !all.contains("messages"))
    fail(ErrorKind::bad_input, path.string(), ": no list \"messages\"");
  check_messages(all.at("messages"), path.string());
  ChatSession loaded(model_, view_);
  try {
    loaded.set_system(all.value("system", std::string()));
    const std::string effort = all.value("effort", std::string());
    loaded.set_effort(effort.empty() ? "default" : effort);
    if (all.contains("temperature")) loaded.set_temperature(dump_json(all.at("temperature")));
    if (all.contains("max_tokens")) loaded.set_max_tokens(dump_json(all.at("max_tokens")));
    loaded.tools_ = all.value("tools", OrderedJson::array());
    loaded.messages_ = all.at("messages");
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::bad_input, path.string(), ": ", error.what());
  }
  loaded.usage_ = usage_;
  *this = loaded;
}

}  // namespace glint
