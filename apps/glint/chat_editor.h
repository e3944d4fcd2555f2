// The input of `glint chat` on a terminal: one message, of one or several lines, with history. UTF-8
// throughout.
#pragma once

#include <termios.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

/// The text being edited and where the cursor is in it; knows nothing of a terminal.
class EditedText {
 public:
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] size_t cursor() const { return cursor_; }  // bytes
  void set(std::string text);
  /// Control characters other than line feed and tab are left out.
  void insert(std::string_view bytes);
  void left();
  void right();
  void word_left();
  void word_right();
  void line_start();
  void line_end();
  void erase_left();
  void erase_right();
  void erase_word_left();
  void erase_to_line_start();
  void erase_to_line_end();

 private:
  [[nodiscard]] size_t before(size_t at) const;
  [[nodiscard]] size_t after(size_t at) const;
  std::string text_;
  size_t cursor_ = 0;
};

/// Takes standard input's terminal out of line mode while it lives. Interrupt keys come as bytes, or with
/// `signals` as signals, as while an answer streams.
class RawTerminal {
 public:
  explicit RawTerminal(bool signals);
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

enum class EditEnd {
  message,    // Enter
  interrupt,  // Ctrl-C
  leave,      // Ctrl-D on an empty line, or the terminal has gone
};

class ChatEditor {
 public:
  /// Reads one message. Enter ends it; Alt-Enter, Ctrl-J or a backslash at a line's end begin a new line, and
  /// what is pasted may hold several. Up and down go through the history.
  EditEnd read(const std::string& prompt, std::string& message);

 private:
  /// The next byte of the terminal, or nothing at its end (or after `wait_ms` without one).
  std::optional<char> next_byte(int wait_ms = -1);
  void draw();
  void take_escape();
  void take_paste();
  void up();
  void down();

  std::string prompt_;
  EditedText edit_;
  std::vector<std::string> history_;
  size_t at_history_ = 0;
  std::string draft_;   // what was typed before going into the history
  int cursor_row_ = 0;  // of the last drawing
};

}  // namespace glint
