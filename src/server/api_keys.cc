#include "server/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <initializer_list>

namespace glint {

namespace {

/// The key of "Bearer KEY"; the scheme in any case.
std::string_view bearer(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size() || !equal_ignoring_case(header.substr(0, kScheme.size()), kScheme))
    return {};
  header.remove_prefix(kScheme.size());
  while (!header.empty() && header.front() == ' ') header.remove_prefix(1);
  return header;
}

bool under(std::string_view path, std::string_view root) {
  return path.substr(0, root.size()) == root && (path.size() == root.size() || path[root.size()] == '/');
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (!key.empty()) digests_.push_back(digest(key));
  }
}

ApiKeys::Digest ApiKeys::digest(std::string_view text) {
  Digest sum{};
  const void* bytes = text.data();
  SHA256(static_cast<const unsigned char*>(bytes), text.size(), sum.data());
  return sum;
}

bool ApiKeys::guards(std::string_view path) {
  for (const std::string_view root : {"/v1", "/v2", "/inference", "/cohere", "/tokenize", "/detokenize"}) {
    if (under(path, root)) return true;
  }
  return false;
}

bool ApiKeys::allow(const HttpRequest& request) const {
  if (digests_.empty()) return true;
  bool allowed = false;
  for (const std::string_view key : {bearer(request.header("Authorization")), request.header("x-api-key")}) {
    if (key.empty()) continue;
    const Digest sum = digest(key);
    for (const Digest& known : digests_) allowed |= CRYPTO_memcmp(sum.data(), known.data(), sum.size()) == 0;
  }
  return allowed;
}

}  // namespace glint
