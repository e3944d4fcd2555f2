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

ApiKeys::ApiKeys(const std::vector<std::string>& keys, const std::vector<std::string>& admin_keys)
    : user_(digests(keys)), admin_(digests(admin_keys)) {}

ApiKeys::Digest ApiKeys::digest(std::string_view text) {
  Digest sum{};
  const void* bytes = text.data();
  SHA256(static_cast<const unsigned char*>(bytes), text.size(), sum.data());
  return sum;
}

std::vector<ApiKeys::Digest> ApiKeys::digests(const std::vector<std::string>& keys) {
  std::vector<Digest> sums;
  for (const std::string& key : keys) {
    if (!key.empty()) sums.push_back(digest(key));
  }
  return sums;
}

bool ApiKeys::guards(std::string_view path) {
  for (const std::string_view root : {"/v1", "/v2", "/inference", "/cohere", "/tokenize", "/detokenize"}) {
    if (under(path, root)) return true;
  }
  return false;
}

bool ApiKeys::guards_admin(std::string_view path) {
  for (const std::string_view root :
       {"/flush_cache", "/reset_prefix_cache", "/reset_mm_cache", "/abort_request", "/abort_requests",
        "/sleep", "/wake_up", "/start_profile", "/stop_profile", "/set_internal_state", "/pause",
        "/resume"}) {
    if (under(path, root)) return true;
  }
  return false;
}

/// One of the keys is there; how long it takes does not tell which, or how much of one fits.
bool ApiKeys::holds(const HttpRequest& request, const std::vector<Digest>& digests) {
  bool found = false;
  for (const std::string_view key : {bearer(request.header("Authorization")), request.header("x-api-key")}) {
    if (key.empty()) continue;
    const Digest sum = digest(key);
    for (const Digest& known : digests) found |= CRYPTO_memcmp(sum.data(), known.data(), sum.size()) == 0;
  }
  return found;
}

bool ApiKeys::allow(const HttpRequest& request) const {
  const bool admin = guards_admin(request.path);
  if (!admin && !guards(request.path)) return true;
  if (user_.empty() && (admin_.empty() || !admin)) return true;
  const bool is_admin = holds(request, admin_);
  const bool is_user = holds(request, user_);
  return is_admin || (is_user && (admin_.empty() || !admin));
}

}  // namespace glint
