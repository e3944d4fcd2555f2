// A conversation of `glint chat`: what has been said, how to go on, and the commands that change it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "chat_client.h"

namespace glint {

enum class ReasoningView { show, fold, hide };

/// What a line of input asks for.
enum class ChatAction {
  none,    // done; `reply` says what
  answer,  // the model is to answer
  leave,
};

struct ChatStep {
  ChatAction action = ChatAction::none;
  std::string reply;     // for the user; several lines are possible
  bool refused = false;  // the command was wrong
};

class ChatSession {
 public:
  ChatSession(std::string model, ReasoningView view) : model_(std::move(model)), view_(view) {}

  /// A message, or a command: a first '/' begins one, "//" is a message that begins with '/'. Never throws a
  /// user's mistake.
  ChatStep take(const std::string& input);
  /// The answer to the last message.
  void add_answer(const ChatAnswer& answer);
  /// The last message got no answer: it is taken back. Returns its text.
  std::string drop_last_message();

  /// The body of the request, without "stream".
  [[nodiscard]] OrderedJson request() const;
  [[nodiscard]] ReasoningView view() const { return view_; }
  [[nodiscard]] bool shows_usage() const { return usage_; }
  void set_usage(bool on) { usage_ = on; }
  [[nodiscard]] size_t turns() const { return messages_.size(); }

  /// Both throw what a user did wrong.
  void set_effort(const std::string& text);
  void set_temperature(const std::string& text);
  void set_max_tokens(const std::string& text);
  void set_system(const std::string& text) { system_ = text; }
  void set_tools(const std::filesystem::path& path);
  void set_view(const std::string& text);
  void load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;

 private:
  ChatStep command(const std::string& name, const std::string& rest);
  ChatStep regenerate();
  ChatStep tool_result(const std::string& text);
  [[nodiscard]] OrderedJson open_calls() const;
  [[nodiscard]] std::string state() const;

  std::string model_;
  ReasoningView view_;
  bool usage_ = true;
  std::string system_;
  std::string effort_;  // empty: the server's default
  std::optional<double> temperature_;
  std::optional<int64_t> max_tokens_;
  OrderedJson tools_ = OrderedJson::array();
  OrderedJson messages_ = OrderedJson::array();  // without the system's
};

/// What /help prints.
std::string chat_help();

}  // namespace glint
