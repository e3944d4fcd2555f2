// API keys: who may call the guarded routes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace glint {

class ApiKeys {
 public:
  /// Empty strings among the keys are left out; without a key everything is open.
  explicit ApiKeys(const std::vector<std::string>& keys);

  /// True for paths under /v1, /v2, /inference and /cohere, and for /tokenize and /detokenize.
  static bool guards(std::string_view path);
  /// "Authorization: Bearer KEY" or "x-api-key: KEY". Compares SHA-256 sums of all keys in constant time.
  [[nodiscard]] bool allow(const HttpRequest& request) const;
  [[nodiscard]] bool open() const { return digests_.empty(); }

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view text);
  std::vector<Digest> digests_;
};

}  // namespace glint
