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
  /// Empty strings among the keys are left out; without a key everything is open. Admin keys open every
  /// route; if there are any, they alone open the routes that change the server.
  explicit ApiKeys(const std::vector<std::string>& keys, const std::vector<std::string>& admin_keys = {});

  /// True for paths under /v1, /v2, /inference and /cohere, and for /tokenize and /detokenize.
  static bool guards(std::string_view path);
  /// True for the routes that change the server or stop its work: /flush_cache, /reset_prefix_cache, ...
  static bool guards_admin(std::string_view path);

  /// False if the request's route is guarded and the request brings no key for it: "Authorization: Bearer
  /// KEY" or "x-api-key: KEY". Compares SHA-256 sums of all keys in constant time.
  [[nodiscard]] bool allow(const HttpRequest& request) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view text);
  static std::vector<Digest> digests(const std::vector<std::string>& keys);
  static bool holds(const HttpRequest& request, const std::vector<Digest>& digests);

  std::vector<Digest> user_, admin_;
};

}  // namespace glint
