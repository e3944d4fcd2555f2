#include "text/byte_map.h"

#include <array>

#include "base/utf8.h"

namespace glint {

namespace {

constexpr char32_t kFirstStandIn = 0x100;
constexpr size_t kStandIns = 68;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Maps {
  std::array<char32_t, 256> of_byte{};
  std::array<int16_t, kFirstStandIn + kStandIns> of_char{};

  constexpr Maps() {
    of_char.fill(-1);
    char32_t next = kFirstStandIn;
    for (unsigned byte = 0; byte < 256; ++byte) {
      of_byte[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
      of_char[of_byte[byte]] = static_cast<int16_t>(byte);
    }
  }
};

constexpr Maps kMaps;

}  // namespace

char32_t byte_to_char(uint8_t byte) {
  return kMaps.of_byte[byte];
}

std::optional<uint8_t> char_to_byte(char32_t code) {
  if (code >= kMaps.of_char.size() || kMaps.of_char[code] < 0) return std::nullopt;
  return static_cast<uint8_t>(kMaps.of_char[code]);
}

std::string bytes_to_token_string(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, byte_to_char(static_cast<uint8_t>(byte)));
  return text;
}

std::optional<std::string> token_string_to_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    const std::optional<uint8_t> byte = char_to_byte(step.code);
    if (step.kind != Utf8Kind::good || !byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    at += step.bytes;
  }
  return bytes;
}

}  // namespace glint
