// UTF-8 as the Unicode standard defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
//
// Ill-formed bytes are cut into maximal subparts (Unicode 3.9, "U+FFFD substitution of maximal subparts"; the
// rule of the WHATWG decoder and of Rust's from_utf8_lossy): the longest start of a well-formed sequence, or
// else one byte.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace glint {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

enum class Utf8Kind : unsigned char {
  good,        // a whole character
  ill_formed,  // a maximal subpart that nothing can complete
  unfinished,  // the text ends inside what may still become a character
};

struct Utf8Step {
  char32_t code = kReplacementCharacter;  // U+FFFD unless kind is good
  unsigned char bytes = 1;  // 1..4 bytes used up; for the other kinds the length of the subpart, 1..3
  Utf8Kind kind = Utf8Kind::ill_formed;
};

/// The character (or maximal subpart) that starts at text[at]; at < text.size().
Utf8Step utf8_step(std::string_view text, size_t at);

/// The offset of the first byte that is not part of a well-formed character; text.size() if there is none. An
/// unfinished character at the end counts as ill-formed. Runs of ASCII are checked eight bytes at a time.
size_t utf8_valid_prefix(std::string_view text);

inline bool is_valid_utf8(std::string_view text) {
  return utf8_valid_prefix(text) == text.size();
}

/// `text` with each maximal ill-formed subpart replaced by one U+FFFD, an unfinished character at the end
/// included.
std::string utf8_lossy(std::string_view text);

/// How many bytes at the end of `text` (0..3) belong to a character that later bytes may still complete.
size_t utf8_unfinished_tail(std::string_view text);

/// Appends one character; surrogates and values above U+10FFFF are written as U+FFFD.
void append_utf8(std::string& out, char32_t code);

/// The number of characters, each maximal ill-formed subpart counted as one.
size_t utf8_length(std::string_view text);

}  // namespace glint
