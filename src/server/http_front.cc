#include "server/http_front.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace glint {

namespace {

constexpr size_t kIdBytesMax = 256;
constexpr std::string_view kIdHeader = "X-Request-Id";

/// Goes into log lines, ids and headers of other programs.
bool usable_id(std::string_view id) {
  return !id.empty() && id.size() <= kIdBytesMax &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
}

void remove_header(HttpRequest& head, std::string_view name) {
  head.headers.erase(
      std::remove_if(head.headers.begin(), head.headers.end(),
                     [&](const HttpHeader& header) { return equal_ignoring_case(header.name, name); }),
      head.headers.end());
}

}  // namespace

std::string random_hex(size_t bytes) {
  std::array<unsigned char, 64> random{};
  GLINT_CHECK(bytes <= random.size() && RAND_bytes(random.data(), static_cast<int>(bytes)) == 1);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    text += kDigits[random[i] >> 4];
    text += kDigits[random[i] & 15];
  }
  return text;
}

std::string check_root_path(std::string_view path) {
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  if (!path.empty() && path[0] != '/') fail(ErrorKind::bad_input, "'", path, "' does not begin with /");
  return std::string(path);
}

HttpFront::HttpFront(FrontOptions options) : options_(std::move(options)), cors_(options_.cors) {
  options_.root_path = check_root_path(options_.root_path);
}

void HttpFront::strip_root(HttpRequest& head) const {
  const std::string& root = options_.root_path;
  if (root.empty() || head.path.compare(0, root.size(), root) != 0) return;
  if (head.path.size() == root.size()) {
    head.path = "/";
  } else if (head.path[root.size()] == '/') {
    head.path.erase(0, root.size());
  }
}

std::vector<HttpHeader> HttpFront::prepare(HttpRequest& head) const {
  strip_root(head);
  std::vector<HttpHeader> headers = cors_.answer_headers(head);
  if (!options_.request_ids) return headers;
  std::string id(head.header(kIdHeader));
  if (!usable_id(id)) {
    remove_header(head, kIdHeader);
    head.generated_id = id = random_hex(16);  // no header: the body may still bring an id
  }
  headers.push_back({std::string(kIdHeader), id});
  return headers;
}

}  // namespace glint
