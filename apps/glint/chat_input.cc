#include "chat_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iostream>

#include "base/error.h"

namespace glint {

namespace {

volatile int interrupt_end = -1;

void note_interrupt(int /*signal*/) {
  const int saved = errno;
  if (::write(interrupt_end, "i", 1) < 0) errno = saved;  // full: enough of them have come
  errno = saved;
}

}  // namespace

Interrupts::Interrupts() {
  if (::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail(ErrorKind::io, "cannot make a pipe");
  interrupt_end = ends_[1];
  struct sigaction action {};
  action.sa_handler = note_interrupt;  // without SA_RESTART: a waiting read() ends
  ::sigaction(SIGINT, &action, &before_);
  std::signal(SIGPIPE, SIG_IGN);
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &before_, nullptr);
  for (const int end : ends_) ::close(end);
}

void Interrupts::forget() const {
  std::array<char, 64> bytes;
  while (::read(ends_[0], bytes.data(), bytes.size()) > 0) {
  }
}

bool ChatInput::next(std::string& message, const ChatView& view) {
  message.clear();
  block_ = false;
  if (!terminal_) return next_of_pipe(message);
  for (;;) {
    std::string line;
    switch (editor_.read(block_ ? "... " : "> ", line)) {
      case EditEnd::leave:
        return false;
      case EditEnd::interrupt: {
        const bool nothing = line.empty() && message.empty() && !block_;
        if (nothing && interrupted_) return false;
        if (nothing) view.note("Ctrl-C again leaves; so does Ctrl-D");
        interrupted_ = nothing;
        message.clear();
        block_ = false;
        continue;
      }
      case EditEnd::message:
        interrupted_ = false;
        if (add_line(line, message)) return true;
    }
  }
}

bool ChatInput::next_of_pipe(std::string& message) {
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (add_line(line, message)) return true;
  }
  return !message.empty();  // what was begun counts
}

bool ChatInput::add_line(const std::string& line, std::string& message) {
  if (line == "\"\"\"") {
    block_ = !block_;
    return !block_;
  }
  const bool goes_on = !block_ && !terminal_ && !line.empty() && line.back() == '\\';
  message += goes_on ? line.substr(0, line.size() - 1) : line;
  if (!block_ && !goes_on) return true;
  message += '\n';
  return false;
}

}  // namespace glint
