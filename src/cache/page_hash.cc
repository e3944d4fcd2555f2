#include "cache/page_hash.h"

#include <openssl/sha.h>

#include <cstring>
#include <vector>

namespace glint {

namespace {

/// One SHA-256 at a time, without OpenSSL's own allocation per digest: a step may hash pages.
class Digest {
 public:
  Digest() { SHA256_Init(&context_); }
  void add(const void* data, size_t bytes) { SHA256_Update(&context_, data, bytes); }
  PageHash finish() {
    PageHash hash;
    SHA256_Final(hash.bytes.data(), &context_);
    return hash;
  }

 private:
  SHA256_CTX context_{};
};

}  // namespace

std::string hex(const PageHash& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : hash.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

PageHash chain_root(std::string_view identity, std::string_view salt) {
  Digest digest;
  for (const std::string_view part : {identity, salt}) {
    const uint64_t length = part.size();
    digest.add(&length, sizeof length);
    digest.add(part.data(), part.size());
  }
  return digest.finish();
}

PageHash chain_next(const PageHash& parent, std::span<const int32_t> tokens) {
  Digest digest;
  digest.add(parent.bytes.data(), parent.bytes.size());
  digest.add(tokens.data(), tokens.size_bytes());
  return digest.finish();
}

}  // namespace glint
