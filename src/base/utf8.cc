#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace glint {

namespace {

struct Lead {
  unsigned char bytes;                 // of the whole character; 0: cannot start one
  unsigned char first_min, first_max;  // the allowed range of the second byte
  unsigned char bits;                  // payload of the lead byte
};

/// Unicode table 3-7, "Well-formed UTF-8 byte sequences".
Lead lead_of(unsigned char byte) {
  const auto low5 = static_cast<unsigned char>(byte & 0x1FU);
  const auto low4 = static_cast<unsigned char>(byte & 0x0FU);
  const auto low3 = static_cast<unsigned char>(byte & 0x07U);
  if (byte < 0x80) return {1, 0, 0, byte};
  if (byte < 0xC2) return {0, 0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF, low5};
  if (byte == 0xE0) return {3, 0xA0, 0xBF, low4};
  if (byte == 0xED) return {3, 0x80, 0x9F, low4};
  if (byte < 0xF0) return {3, 0x80, 0xBF, low4};
  if (byte == 0xF0) return {4, 0x90, 0xBF, low3};
  if (byte < 0xF4) return {4, 0x80, 0xBF, low3};
  if (byte == 0xF4) return {4, 0x80, 0x8F, low3};
  return {0, 0, 0, 0};
}

size_t ascii_run(std::string_view text, size_t at) {
  while (at + sizeof(uint64_t) <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & 0x8080808080808080U) != 0) break;
    at += sizeof word;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Step utf8_step(std::string_view text, size_t at) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
  if (lead.bytes == 1) return {lead.bits, 1, Utf8Kind::good};
  if (lead.bytes == 0) return {kReplacementCharacter, 1, Utf8Kind::ill_formed};
  char32_t code = lead.bits;
  unsigned char low = lead.first_min;
  unsigned char high = lead.first_max;
  for (unsigned char taken = 1; taken < lead.bytes; ++taken) {
    if (at + taken >= text.size()) return {kReplacementCharacter, taken, Utf8Kind::unfinished};
    const auto byte = static_cast<unsigned char>(text[at + taken]);
    if (byte < low || byte > high) return {kReplacementCharacter, taken, Utf8Kind::ill_formed};
    code = (code << 6) | (byte & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {code, lead.bytes, Utf8Kind::good};
}

size_t utf8_valid_prefix(std::string_view text) {
  size_t at = 0;
  while ((at = ascii_run(text, at)) < text.size()) {
    const Utf8Step step = utf8_step(text, at);
    if (step.kind != Utf8Kind::good) return at;
    at += step.bytes;
  }
  return at;
}

std::string utf8_lossy(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t good = utf8_valid_prefix(text);
    out.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    out.append(kReplacementUtf8);
    text.remove_prefix(utf8_step(text, 0).bytes);
  }
  return out;
}

size_t utf8_unfinished_tail(std::string_view text) {
  const size_t most = text.size() < 3 ? text.size() : 3;
  for (size_t back = 1; back <= most; ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const Utf8Step step = utf8_step(text, text.size() - back);
    return step.kind == Utf8Kind::unfinished && step.bytes == back ? back : 0;
  }
  return 0;
}

void append_utf8(std::string& out, char32_t code) {
  const auto byte = [&out](char32_t value) {
    out.push_back(static_cast<char>(static_cast<unsigned char>(value)));
  };
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) code = kReplacementCharacter;
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0U | (code >> 6));
    byte(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    byte(0xE0U | (code >> 12));
    byte(0x80U | ((code >> 6) & 0x3FU));
    byte(0x80U | (code & 0x3FU));
  } else {
    byte(0xF0U | (code >> 18));
    byte(0x80U | ((code >> 12) & 0x3FU));
    byte(0x80U | ((code >> 6) & 0x3FU));
    byte(0x80U | (code & 0x3FU));
  }
}

size_t utf8_length(std::string_view text) {
  size_t characters = 0;
  for (size_t at = 0; at < text.size(); at += utf8_step(text, at).bytes) ++characters;
  return characters;
}

}  // namespace glint
