// The reversible map of byte-level BPE: every byte is written as one printable character. Printable Latin-1
// bytes stand for themselves, the other 68 take U+0100.. in order (text-layer: byte-to-unicode map of GPT-2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glint {

/// The character that stands for `byte` in the token strings of a tokenizer.json.
char32_t byte_to_char(uint8_t byte);

/// The inverse; nothing for a character that stands for no byte.
std::optional<uint8_t> char_to_byte(char32_t code);

/// Bytes as a token string ("the" with a space before it is U+0120 and "the"), UTF-8.
std::string bytes_to_token_string(std::string_view bytes);

/// The bytes of a token string (valid UTF-8); nothing if one of its characters stands for no byte.
std::optional<std::string> token_string_to_bytes(std::string_view text);

}  // namespace glint
