// Cryptographic sums of what passes by.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace glint {

class Digest {
 public:
  enum class Kind { sha1, sha256 };
  explicit Digest(Kind kind);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  /// 40 (SHA-1) or 64 (SHA-256) hexadecimal digits. Call once, last.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Sha256 : public Digest {
 public:
  Sha256() : Digest(Kind::sha256) {}
};

std::string sha256_hex(std::string_view text);

}  // namespace glint
