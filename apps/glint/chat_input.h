// Where `glint chat` gets its messages from, and what interrupts it.
#pragma once

#include <signal.h>

#include <array>
#include <string>

#include "chat_editor.h"
#include "chat_view.h"

namespace glint {

/// SIGINT as something that poll() sees. One object at a time; SIGPIPE is ignored from then on.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Readable once an interrupt has come.
  [[nodiscard]] int fd() const { return ends_[0]; }
  /// Forgets those that have come.
  void forget() const;

 private:
  std::array<int, 2> ends_{};
  struct sigaction before_ {};
};

class ChatInput {
 public:
  explicit ChatInput(bool terminal) : terminal_(terminal) {}

  /// The next message or command. False at the end; on a terminal the second Ctrl-C at an empty prompt is one
  /// too. Lines that end with a backslash go on; a line of three double quotes begins and ends a block.
  bool next(std::string& message, const ChatView& view);

  /// The answer was stopped by Ctrl-C: the next one at the prompt leaves.
  void was_interrupted() { interrupted_ = true; }

 private:
  bool next_of_pipe(std::string& message);
  /// True once the message is complete.
  bool add_line(const std::string& line, std::string& message);

  bool terminal_;
  bool block_ = false;
  bool interrupted_ = false;
  ChatEditor editor_;
};

}  // namespace glint
