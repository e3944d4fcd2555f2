// Arbitrary bytes as a tokenizer.json: either an error, or a tokenizer that keeps its promises.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace {

void require(bool condition, const char* promise) {
  if (condition) return;
  std::cerr << "broken: " << promise << "\n";
  std::abort();
}

/// Without added tokens and with a token for each byte, text must survive the way there and back.
bool keeps_all_text(const glint::Tokenizer& tokenizer) {
  for (glint::TokenId id = 0; id < tokenizer.size(); ++id) {
    if (tokenizer.is_added(id)) return false;
  }
  std::vector<bool> bytes(256);
  for (glint::TokenId id = 0; id < tokenizer.size(); ++id) {
    const std::string_view text = tokenizer.token_bytes(id);
    if (text.size() == 1) bytes[static_cast<unsigned char>(text[0])] = true;
  }
  for (const bool there : bytes) {
    if (!there) return false;
  }
  return true;
}

void check_text(const std::shared_ptr<const glint::Tokenizer>& tokenizer, const std::string& text,
                bool survives) {
  const std::vector<glint::TokenId> ids = tokenizer->encode(text, false);
  for (const glint::TokenId id : ids) require(tokenizer->exists(id), "encode gives existing ids");
  const std::string back = tokenizer->decode(ids, false);
  require(glint::is_valid_utf8(back), "decode gives UTF-8");
  if (survives) require(back == text, "text survives");
  glint::StreamDetokenizer stream(tokenizer, false);
  std::string streamed;
  for (const glint::TokenId id : ids) {
    streamed += stream.push(id);
    require(glint::is_valid_utf8(streamed), "a stream gives UTF-8");
  }
  if (survives) require(streamed == text, "text survives as a stream");
  (void)tokenizer->encode(text, true);
  (void)tokenizer->decode(ids, true);
}

void check(std::string_view json) {
  const auto tokenizer = glint::Tokenizer::parse(json, "fuzz");
  const bool survives = keeps_all_text(*tokenizer);
  for (const std::string_view text :
       {"", " ", "Hello, world's 12345!\r\n\r\n  x", "<x>  <xy> word words \xC3\xA9",
        "\xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD\xC5\xBF"}) {
    check_text(tokenizer, std::string(text), survives);
  }
  check_text(tokenizer, std::string(300, 'a') + std::string(300, ' ') + "abababab", survives);
  check_text(tokenizer, glint::utf8_lossy(json.substr(0, 400)), survives);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    check(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const glint::Error& error) {
    require(error.kind() != glint::ErrorKind::internal, error.what());
    require(std::string_view(error.what()).find('\n') == std::string_view::npos, "an error is one line");
  }
  return 0;
}
