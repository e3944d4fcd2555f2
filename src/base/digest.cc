#include "base/digest.h"

#include <openssl/evp.h>

#include <array>

#include "base/error.h"

namespace glint {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest(Kind kind) : state_(std::make_unique<State>()) {
  GLINT_CHECK(state_->context != nullptr);
  const EVP_MD* const method = kind == Kind::sha1 ? EVP_sha1() : EVP_sha256();
  GLINT_CHECK(EVP_DigestInit_ex(state_->context, method, nullptr) == 1);
}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::span<const std::byte> bytes) {
  GLINT_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int bytes = 0;
  GLINT_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &bytes) == 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < bytes; ++i) {
    text += kDigits[digest.at(i) >> 4];
    text += kDigits[digest.at(i) & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

}  // namespace glint
