#include "checkpoint/hub/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/hub/encodings.h"

namespace glint::hub {

namespace {

constexpr std::string_view kDefaultEndpoint = "https://huggingface.co";
constexpr size_t kTokenBytesMax = 4096;

/// The environment with an empty value taken for none.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  [[nodiscard]] std::string text(const char* name) const {
    const char* value = environment_(name);
    return value == nullptr ? std::string() : std::string(value);
  }
  /// The first of `names` that is set.
  [[nodiscard]] std::string first(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (std::string value = text(name); !value.empty()) return value;
    }
    return {};
  }
  /// 1, on, yes or true in any case, as huggingface_hub reads them.
  [[nodiscard]] bool on(const char* name) const {
    const std::string value = lower_case(text(name));
    return value == "1" || value == "on" || value == "yes" || value == "true";
  }
  /// A path with "~", "$NAME" and "${NAME}" replaced.
  [[nodiscard]] std::filesystem::path path(const char* name) const { return expanded(text(name)); }

  [[nodiscard]] std::filesystem::path home() const { return text("HOME").empty() ? "/root" : text("HOME"); }

  void read_seconds(const char* name, std::chrono::milliseconds& value) const {
    const std::string digits = text(name);
    if (digits.empty()) return;
    int64_t seconds = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
    if (error != std::errc() || end != digits.data() + digits.size() || seconds < 1 || seconds > 86'400) {
      fail(ErrorKind::bad_input, name, "=", digits, ": expected whole seconds, 1 to 86400");
    }
    value = std::chrono::seconds(seconds);
  }

 private:
  [[nodiscard]] std::filesystem::path expanded(std::string text) const {
    if (text == "~" || text.starts_with("~/")) text = home().string() + text.substr(1);
    for (size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at)) {
      const bool braced = text.compare(at + 1, 1, "{") == 0;
      const size_t begin = at + (braced ? 2 : 1);
      size_t end = begin;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
        ++end;
      const std::string name = text.substr(begin, end - begin);
      const bool closed = !braced || text.compare(end, 1, "}") == 0;
      if (name.empty() || !closed || environment_(name.c_str()) == nullptr) {
        ++at;  // stays as it is
        continue;
      }
      const std::string value = environment_(name.c_str());
      text.replace(at, end + (braced ? 1 : 0) - at, value);
      at += value.size();
    }
    return text;
  }

  const Environment& environment_;
};

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

/// Throws rather than let a stray byte end a header line; the value itself is never shown.
std::string checked_token(std::string token, const std::string& source) {
  const bool plain = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (!plain || token.size() > kTokenBytesMax) {
    fail(ErrorKind::bad_input, source, " holds no access token: it has characters that no token has");
  }
  return token;
}

std::string find_token(const Variables& variables, const std::filesystem::path& hf_home) {
  if (variables.on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return {};
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (std::string token = trimmed(variables.text(name)); !token.empty()) return checked_token(token, name);
  }
  std::filesystem::path file = variables.path("HF_TOKEN_PATH");
  if (file.empty()) file = hf_home / "token";
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return {};
  return checked_token(trimmed(read_file(file, kTokenBytesMax)), file.string());
}

Url parse_proxy(const std::string& text, const char* name) {
  const Url proxy = parse_url(text.find("://") == std::string::npos ? "http://" + text : text, name);
  if (proxy.tls) {
    fail(ErrorKind::unsupported, name, "=", proxy.origin(),
         ": proxies are spoken to over http:// (they pass https:// on all the same)");
  }
  return proxy;
}

void read_proxies(const Variables& variables, HttpSettings& http) {
  // HTTP_PROXY in capitals alone is what a CGI client can set; so curl ignores it, and httpx does not.
  const std::string plain = variables.first({"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"});
  const std::string secure = variables.first({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"});
  if (!plain.empty()) http.http_proxy = parse_proxy(plain, "http_proxy");
  if (!secure.empty()) http.https_proxy = parse_proxy(secure, "https_proxy");
  const std::string direct = variables.first({"no_proxy", "NO_PROXY"});
  for (size_t begin = 0; begin < direct.size();) {
    const size_t end = std::min(direct.find(',', begin), direct.size());
    if (std::string host = lower_case(trimmed(direct.substr(begin, end - begin))); !host.empty()) {
      http.no_proxy.push_back(std::move(host));
    }
    begin = end + 1;
  }
}

}  // namespace

HubSettings hub_settings(const Environment& environment) {
  const Variables variables(environment);
  HubSettings settings;
  std::string endpoint = variables.text("HF_ENDPOINT");
  if (endpoint.empty()) endpoint = kDefaultEndpoint;
  settings.endpoint = parse_url(endpoint, "HF_ENDPOINT");
  while (settings.endpoint.target.ends_with('/')) settings.endpoint.target.pop_back();

  std::filesystem::path hf_home = variables.path("HF_HOME");
  if (hf_home.empty()) {
    const std::filesystem::path caches = variables.path("XDG_CACHE_HOME");
    hf_home = (caches.empty() ? variables.home() / ".cache" : caches) / "huggingface";
  }
  settings.cache = variables.path("HF_HUB_CACHE");
  if (settings.cache.empty()) settings.cache = variables.path("HUGGINGFACE_HUB_CACHE");
  if (settings.cache.empty()) settings.cache = hf_home / "hub";
  settings.offline = variables.on("HF_HUB_OFFLINE") || variables.on("TRANSFORMERS_OFFLINE");
  settings.progress = !variables.on("HF_HUB_DISABLE_PROGRESS_BARS");
  settings.token = find_token(variables, hf_home);
  variables.read_seconds("HF_HUB_ETAG_TIMEOUT", settings.http.connect_timeout);
  variables.read_seconds("HF_HUB_DOWNLOAD_TIMEOUT", settings.http.silence_timeout);
  read_proxies(variables, settings.http);
  settings.http.ca_file = variables.path("REQUESTS_CA_BUNDLE");
  if (settings.http.ca_file.empty()) settings.http.ca_file = variables.path("CURL_CA_BUNDLE");
  return settings;
}

HubSettings hub_settings() {
  return hub_settings([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace glint::hub
