#include "text/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/unicode_classes.h"

namespace glint {

namespace {

/// The offset of the character that ends at `end` > 0 of valid UTF-8.
size_t step_back(std::string_view text, size_t end) {
  do {
    --end;
  } while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U);
  return end;
}

bool is_word_before(std::string_view text, size_t at) {
  return at > 0 && UnicodeClasses::get().is_word(utf8_step(text, step_back(text, at)).code);
}

bool is_word_after(std::string_view text, size_t at) {
  return at < text.size() && UnicodeClasses::get().is_word(utf8_step(text, at).code);
}

size_t white_space_start(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t at = step_back(text, end);
    if (!UnicodeClasses::get().is_white_space(utf8_step(text, at).code)) break;
    end = at;
  }
  return end;
}

size_t white_space_end(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text, at);
    if (!UnicodeClasses::get().is_white_space(step.code)) break;
    at += step.bytes;
  }
  return at;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  uint32_t at = 0;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    first_of_byte_[byte] = at;
    while (at < tokens_.size() && static_cast<unsigned char>(tokens_[at].content[0]) == byte) ++at;
  }
  first_of_byte_[256] = at;
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, size_t at) const {
  const auto byte = static_cast<unsigned char>(text[at]);
  auto first = tokens_.begin() + first_of_byte_[byte];
  auto last = tokens_.begin() + first_of_byte_[byte + 1];
  const AddedToken* best = nullptr;
  // [first, last) share the `depth` bytes that the text has at `at`; sorted, so the one that ends here comes
  // first.
  for (size_t depth = 1; first != last; ++depth) {
    if (first->content.size() == depth) best = &*first++;
    if (first == last || at + depth >= text.size()) break;
    const auto wanted = static_cast<unsigned char>(text[at + depth]);
    const auto byte_at = [depth](const AddedToken& token) {
      return static_cast<unsigned char>(token.content[depth]);
    };
    first = std::lower_bound(first, last, wanted,
                             [&](const AddedToken& t, unsigned char b) { return byte_at(t) < b; });
    last = std::upper_bound(first, last, wanted,
                            [&](unsigned char b, const AddedToken& t) { return b < byte_at(t); });
  }
  return best;
}

void AddedTokenMatcher::split(std::string_view text, std::vector<TextSplit>& out) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const AddedToken* token =
        first_of_byte_[byte] == first_of_byte_[byte + 1] ? nullptr : longest_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t start = at;
    size_t stop = at + token->content.size();
    at = stop;
    if (token->single_word && (is_word_before(text, start) || is_word_after(text, stop))) continue;
    if (token->lstrip) start = std::max(white_space_start(text, start), done);
    if (token->rstrip) stop = white_space_end(text, stop);
    if (done < start) out.push_back({-1, text.substr(done, start - done)});
    out.push_back({token->id, {}});
    done = stop;
  }
  if (done != text.size()) out.push_back({-1, text.substr(done)});
}

}  // namespace glint
