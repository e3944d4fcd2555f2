#include "chat_editor.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cwchar>

#include "base/error.h"
#include "base/utf8.h"
#include "chat_text.h"

namespace glint {

namespace {

constexpr char kEscape = 0x1B;
constexpr int kEscapeWaitMs = 50;  // an escape key alone is not followed by anything
constexpr std::string_view kPasteOn = "\033[?2004h";
constexpr std::string_view kPasteOff = "\033[?2004l";
constexpr std::string_view kPasteEnd = "\033[201~";
constexpr std::string_view kContinuation = "... ";

constexpr char control(char letter) {
  return static_cast<char>(letter & 0x1F);
}

void write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::write(STDOUT_FILENO, text.data(), text.size());
    if (sent < 0 && errno != EINTR) return;
    if (sent > 0) text.remove_prefix(static_cast<size_t>(sent));
  }
}

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// Where writing `text` leads from (row, column); lines wrap at `columns`.
void advance(std::string_view text, int columns, int& row, int& column) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    at += step.bytes;
    if (step.code == U'\n') {
      ++row;
      column = 0;
      continue;
    }
    const int width = std::max(0, ::wcwidth(static_cast<wchar_t>(step.code)));
    if (column + width > columns) {
      ++row;
      column = 0;
    }
    column += width;
  }
}

/// Tabs as spaces, so that every character has a width, and a mark in front of every line but the first.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : harmless_text(text)) {
    if (c == '\t') {
      out += "  ";
    } else {
      out += c;
      if (c == '\n') out += kContinuation;
    }
  }
  return out;
}

}  // namespace

RawTerminal::RawTerminal(bool signals) {
  if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  if (!signals) raw.c_lflag &= ~static_cast<tcflag_t>(ISIG);
  raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IXON);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  changed_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

RawTerminal::~RawTerminal() {
  if (changed_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

std::optional<char> ChatEditor::next_byte(int wait_ms) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  int ready = 0;
  do ready = ::poll(&input, 1, wait_ms);
  while (ready < 0 && errno == EINTR && wait_ms < 0);
  char byte = 0;
  if (ready <= 0 || ::read(STDIN_FILENO, &byte, 1) != 1) return std::nullopt;
  return byte;
}

void ChatEditor::draw() {
  const int columns = terminal_columns();
  const std::string_view text = edit_.text();
  const std::string left = shown(text.substr(0, edit_.cursor()));
  const std::string right = shown(text.substr(edit_.cursor()));
  std::string out = "\r";
  if (cursor_row_ > 0) out += cat("\033[", cursor_row_, "A");
  out += "\033[J";
  out += prompt_;
  for (const char c : left + right) out += c == '\n' ? std::string("\r\n") : std::string(1, c);
  int row = 0;
  int column = 0;
  advance(prompt_, columns, row, column);
  advance(left, columns, row, column);
  int end_row = row;
  int end_column = column;
  advance(right, columns, end_row, end_column);
  if (end_column ==
      columns) {  // the terminal waits at the edge: step over it, so that the rows are as counted
    out += "\r\n";
    ++end_row;
  }
  if (column == columns) {
    ++row;
    column = 0;
  }
  if (end_row > row) out += cat("\033[", end_row - row, "A");
  out += "\r";
  if (column > 0) out += cat("\033[", column, "C");
  cursor_row_ = row;
  write_out(out);
}

void ChatEditor::up() {
  if (at_history_ == 0) return;
  if (at_history_ == history_.size()) draft_ = edit_.text();
  edit_.set(history_[--at_history_]);
}

void ChatEditor::down() {
  if (at_history_ >= history_.size()) return;
  edit_.set(++at_history_ == history_.size() ? draft_ : history_[at_history_]);
}

void ChatEditor::take_paste() {
  std::string pasted;
  while (pasted.size() < kPasteEnd.size() ||
         pasted.compare(pasted.size() - kPasteEnd.size(), kPasteEnd.size(), kPasteEnd) != 0) {
    const auto byte = next_byte();
    if (!byte) return;
    pasted += *byte == '\r' ? '\n' : *byte;
  }
  edit_.insert(std::string_view(pasted).substr(0, pasted.size() - kPasteEnd.size()));
}

void ChatEditor::take_escape() {
  const auto first = next_byte(kEscapeWaitMs);
  if (!first) return;
  if (*first == '\r' || *first == '\n') return edit_.insert("\n");
  if (*first == 'b') return edit_.word_left();
  if (*first == 'f') return edit_.word_right();
  if (*first != '[' && *first != 'O') return;
  std::string sequence;
  do {
    const auto byte = next_byte(kEscapeWaitMs);
    if (!byte || sequence.size() > 16) return;
    sequence += *byte;
  } while (sequence.back() < '@' || sequence.back() > '~');
  if (sequence == "200~") return take_paste();
  if (sequence == "A") return up();
  if (sequence == "B") return down();
  if (sequence == "C") return edit_.right();
  if (sequence == "D") return edit_.left();
  if (sequence == "1;5C" || sequence == "1;3C") return edit_.word_right();
  if (sequence == "1;5D" || sequence == "1;3D") return edit_.word_left();
  if (sequence == "H" || sequence == "1~" || sequence == "7~") return edit_.line_start();
  if (sequence == "F" || sequence == "4~" || sequence == "8~") return edit_.line_end();
  if (sequence == "3~") return edit_.erase_right();
}

EditEnd ChatEditor::read(const std::string& prompt, std::string& message) {
  const RawTerminal raw(false);
  prompt_ = prompt;
  edit_.set("");
  at_history_ = history_.size();
  cursor_row_ = 0;
  write_out(kPasteOn);
  const auto finish = [&](EditEnd end) {
    edit_.set(edit_.text());  // the cursor to the end
    draw();
    write_out("\r\n");
    write_out(kPasteOff);
    message = edit_.text();
    return end;
  };
  for (;;) {
    draw();
    const auto byte = next_byte();
    if (!byte) return finish(EditEnd::leave);
    switch (*byte) {
      case '\r':
        if (edit_.cursor() == edit_.text().size() && !edit_.text().empty() && edit_.text().back() == '\\') {
          edit_.erase_left();
          edit_.insert("\n");
          break;
        }
        if (!edit_.text().empty() && (history_.empty() || history_.back() != edit_.text()))
          history_.push_back(edit_.text());
        return finish(EditEnd::message);
      case '\n':
        edit_.insert("\n");
        break;
      case kEscape:
        take_escape();
        break;
      case control('C'):
        return finish(EditEnd::interrupt);
      case control('D'):
        if (edit_.text().empty()) return finish(EditEnd::leave);
        edit_.erase_right();
        break;
      case 0x7F:
      case control('H'):
        edit_.erase_left();
        break;
      case control('A'):
        edit_.line_start();
        break;
      case control('E'):
        edit_.line_end();
        break;
      case control('B'):
        edit_.left();
        break;
      case control('F'):
        edit_.right();
        break;
      case control('K'):
        edit_.erase_to_line_end();
        break;
      case control('U'):
        edit_.erase_to_line_start();
        break;
      case control('W'):
        edit_.erase_word_left();
        break;
      case control('P'):
        up();
        break;
      case control('N'):
        down();
        break;
      case control('L'):
        write_out("\033[H\033[2J");
        cursor_row_ = 0;
        break;
      default: {
        // A whole character at once: half of one cannot be drawn.
        std::string bytes(1, *byte);
        while (utf8_unfinished_tail(bytes) > 0) {
          const auto more = next_byte(kEscapeWaitMs);
          if (!more) break;
          bytes += *more;
        }
        edit_.insert(utf8_lossy(bytes));
      }
    }
  }
}

}  // namespace glint
