// How `glint chat` shows an answer: as text alone, or on a terminal with dimmed reasoning and a line of
// figures.
#pragma once

#include <chrono>
#include <string>

#include "chat_client.h"
#include "chat_session.h"

namespace glint {

class ChatView {
 public:
  /// `styled`: a terminal. Without it the answer's content and its tool calls go to standard output and
  /// nothing else does; reasoning too if it is to be shown.
  explicit ChatView(bool styled) : styled_(styled) {}

  void begin(ReasoningView view);
  void piece(ChatPiece kind, const std::string& text);
  /// Ends the answer's lines; with `usage` the figures follow.
  void end(const ChatAnswer& answer, bool usage);
  /// After an error: leaves the line.
  void abandon();

  /// A line for the user, not part of an answer: to standard output on a terminal, else to standard error.
  void note(const std::string& text) const;
  void error(const std::string& text) const;

 private:
  void write(const std::string& text);
  void fold_line(const std::string& text);
  void close_reasoning();
  void show_calls(const OrderedJson& message);

  bool styled_;
  ReasoningView view_ = ReasoningView::show;
  bool in_reasoning_ = false;
  bool dimmed_ = false;
  bool folded_ = false;  // a line stands there that will be replaced
  bool at_line_start_ = true;
  bool content_began_ = false;
  std::chrono::steady_clock::time_point began_, drawn_;
};

/// "25 + 61 tokens (48 of thought), 105.3 tokens/s, first after 0.08 s".
std::string usage_line(const ChatAnswer& answer);

}  // namespace glint
