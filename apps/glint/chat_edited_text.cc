#include <algorithm>

#include "base/utf8.h"
#include "chat_editor.h"

namespace glint {

namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

}  // namespace

void EditedText::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void EditedText::insert(std::string_view bytes) {
  std::string clean;
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\t' || (code >= 0x20 && code != 0x7F)) clean += c;
  }
  text_.insert(cursor_, clean);
  cursor_ += clean.size();
}

size_t EditedText::before(size_t at) const {
  if (at == 0) return 0;
  do --at;
  while (at > 0 && is_continuation(text_[at]));
  return at;
}

size_t EditedText::after(size_t at) const {
  if (at >= text_.size()) return text_.size();
  do ++at;
  while (at < text_.size() && is_continuation(text_[at]));
  return at;
}

void EditedText::left() {
  cursor_ = before(cursor_);
}
void EditedText::right() {
  cursor_ = after(cursor_);
}

void EditedText::word_left() {
  while (cursor_ > 0 && text_[cursor_ - 1] == ' ') --cursor_;
  while (cursor_ > 0 && text_[cursor_ - 1] != ' ' && text_[cursor_ - 1] != '\n') --cursor_;
}

void EditedText::word_right() {
  while (cursor_ < text_.size() && text_[cursor_] == ' ') ++cursor_;
  while (cursor_ < text_.size() && text_[cursor_] != ' ' && text_[cursor_] != '\n') ++cursor_;
}

void EditedText::line_start() {
  while (cursor_ > 0 && text_[cursor_ - 1] != '\n') --cursor_;
}

void EditedText::line_end() {
  cursor_ = std::min(text_.find('\n', cursor_), text_.size());
}

void EditedText::erase_left() {
  const size_t end = cursor_;
  left();
  text_.erase(cursor_, end - cursor_);
}

void EditedText::erase_right() {
  text_.erase(cursor_, after(cursor_) - cursor_);
}

void EditedText::erase_word_left() {
  const size_t end = cursor_;
  word_left();
  text_.erase(cursor_, end - cursor_);
}

void EditedText::erase_to_line_start() {
  const size_t end = cursor_;
  line_start();
  text_.erase(cursor_, end - cursor_);
}

void EditedText::erase_to_line_end() {
  text_.erase(cursor_, std::min(text_.find('\n', cursor_), text_.size()) - cursor_);
}

}  // namespace glint
