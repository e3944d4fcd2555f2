#include "checkpoint/hub/hub_api.h"

#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "checkpoint/hub/encodings.h"
#include "checkpoint/hub/repo_cache.h"

namespace glint::hub {

namespace {

constexpr int kRedirectsMax = 10;
constexpr int kPagesMax = 100;  // of 1,000 files
constexpr size_t kAnswerBytesMax = size_t{32} << 20;
constexpr size_t kErrorBytesMax = size_t{1} << 20;
constexpr size_t kMessageCharactersMax = 200;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool hex_digits(const std::string& text, size_t count) {
  return text.size() == count && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// What the hub says of its refusal, on one line, or nothing.
std::string reason(const HttpResponse& response) {
  std::string text = response.header("x-error-message");
  for (char& c : text) {
    if (c < ' ' || c == 0x7F) c = ' ';
  }
  if (text.size() > kMessageCharactersMax) text.resize(kMessageCharactersMax);
  return text.empty() ? text : " The hub says: " + text;
}

std::optional<std::chrono::seconds> retry_after(const HttpResponse& response) {
  const std::string text = response.header("retry-after");
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return std::chrono::seconds(std::min<int64_t>(seconds, 86'400));
}

/// The address of rel="next" in a Link header, or nothing.
std::string next_page(const HttpResponse& response) {
  const std::string link = response.header("link");
  const size_t rel = link.find("rel=\"next\"");
  if (rel == std::string::npos) return {};
  const size_t begin = link.rfind('<', rel);
  const size_t end = begin == std::string::npos ? begin : link.find('>', begin);
  if (end == std::string::npos || end > rel) return {};
  return link.substr(begin + 1, end - begin - 1);
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool plain_name(const std::string& name) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c != 0x7F; });
  return printable && !name.empty() && name.size() <= 255 && name.front() != '.' &&
         name.find('/') == std::string::npos && name.find('\\') == std::string::npos;
}

/// An entry of the listing, or nothing for what is no plain file. Throws io for an entry without a sum.
std::optional<RemoteFile> remote_file(const Json& entry, const std::string& repo) {
  RemoteFile file;
  if (!entry.is_object() || text_of(entry, "type") != "file") return std::nullopt;
  file.name = text_of(entry, "path");
  if (!plain_name(file.name)) return std::nullopt;
  const auto lfs = entry.find("lfs");
  const bool large = lfs != entry.end() && lfs->is_object();
  const Json& stored = large ? *lfs : entry;
  file.sum = text_of(stored, "oid");
  if (large && file.sum.starts_with("sha256:")) file.sum.erase(0, 7);
  const auto size = stored.find("size");
  const bool sized =
      size != stored.end() && size->is_number_unsigned() && size->get<uint64_t>() <= uint64_t{1} << 60;
  if (!sized || !hex_digits(file.sum, large ? 64 : 40)) {
    fail(ErrorKind::io, repo, ": the hub lists ", file.name, " without a size and a sum to check it by");
  }
  file.bytes = size->get<int64_t>();
  return file;
}

}  // namespace

HubApi::HubApi(const HubSettings& settings, std::string repo) : settings_(settings), repo_(std::move(repo)) {}

Url HubApi::url_of(const std::string& path) const {
  Url url = settings_.endpoint;
  url.target += path;
  return url;
}

HttpHeaders HubApi::headers_for(const Url& url) const {
  HttpHeaders headers{{"User-Agent", "glint/" GLINT_VERSION}, {"Accept-Encoding", "identity"}};
  if (!settings_.token.empty() && url.origin() == settings_.endpoint.origin()) {
    headers.emplace_back("Authorization", "Bearer " + settings_.token);
  }
  return headers;
}

HttpResponse HubApi::get(HttpClient& client, Url url, const HttpHeaders& extra, const std::string& revision,
                         const std::string& file, std::initializer_list<int> accepted) const {
  for (int hop = 0; hop <= kRedirectsMax; ++hop) {
    HttpHeaders headers = headers_for(url);
    headers.insert(headers.end(), extra.begin(), extra.end());
    HttpResponse response = client.get(url, headers);
    if (!is_redirect(response.status)) {
      if (std::find(accepted.begin(), accepted.end(), response.status) != accepted.end()) return response;
      refuse(client, response, url, revision, file);
    }
    client.read_all(kErrorBytesMax);
    const Url next = join_url(url, response.header("location"));
    if (url.tls && !next.tls) {
      fail(ErrorKind::io, url.origin(), " redirects to ", next.origin(), ", which is not encrypted: refused");
    }
    url = next;
  }
  throw Retryable(cat(url.origin(), ": more than ", kRedirectsMax, " redirects"));
}

void HubApi::refuse(HttpClient& client, const HttpResponse& response, const Url& url,
                    const std::string& revision, const std::string& file) const {
  (void)client.read_all(kErrorBytesMax);
  const int status = response.status;
  const std::string code = response.header("x-error-code");
  const std::string hub = url.origin();
  const std::string why = reason(response);
  if (status == 408 || status == 429 || status >= 500) {
    const char* what = status == 429 ? " asks to come back later (429)" : " cannot answer now (";
    throw Retryable(
        cat(hub, what, status == 429 ? "" : cat(status, ")"), file.empty() ? "" : ": " + file, why),
        retry_after(response));
  }
  if (code == "GatedRepo") {
    fail(ErrorKind::bad_input, repo_, " is gated (", status, "): accept its terms at ", hub, "/", repo_,
         ", and set HF_TOKEN to a token of that account.", why);
  }
  if (status == 401 || status == 403) {
    if (settings_.token.empty()) {
      fail(ErrorKind::not_found, repo_, ": ", hub, " shows it to nobody without a token (", status,
           "): it is private or gated, or there is no such model; HF_TOKEN gives a token.", why);
    }
    fail(ErrorKind::not_found, repo_, ": ", hub, " does not show it to this token (", status,
         "): the token is no longer valid or may not read it, or there is no such model.", why);
  }
  if (status == 404 && code == "RevisionNotFound") {
    fail(ErrorKind::not_found, repo_, " has no revision ", revision, " on ", hub, " (404); see --revision");
  }
  if (status == 404 && !file.empty()) {
    fail(ErrorKind::not_found, repo_, " has no file ", file, " at ", revision, " on ", hub, " (404)");
  }
  if (status == 404) fail(ErrorKind::not_found, hub, " has no model ", repo_, " (404).", why);
  fail(ErrorKind::io, repo_, ": unexpected answer ", status, " of ", hub, why);
}

std::string HubApi::commit_of(HttpClient& client, const std::string& revision, const StopFlag& stop) const {
  const Url url = url_of("/api/models/" + repo_ + "/revision/" + percent_encoded(revision));
  return with_retries(settings_, stop, [&] {
    get(client, url, {}, revision, "", {200});
    const Json answer = parse_json(client.read_all(kAnswerBytesMax), url.text());
    std::string commit = answer.is_object() ? text_of(answer, "sha") : std::string();
    if (!is_commit(commit)) {
      fail(ErrorKind::io, url.text(), ": the answer names no commit; does HF_ENDPOINT point to a hub?");
    }
    return commit;
  });
}

std::vector<RemoteFile> HubApi::files(HttpClient& client, const std::string& commit,
                                      const StopFlag& stop) const {
  Url url = url_of("/api/models/" + repo_ + "/tree/" + commit);
  std::vector<RemoteFile> files;
  for (int page = 0; page < kPagesMax; ++page) {
    const std::string next = with_retries(settings_, stop, [&] {
      const HttpResponse response = get(client, url, {}, commit, "", {200});
      const Json answer = parse_json(client.read_all(kAnswerBytesMax), url.text());
      if (!answer.is_array()) fail(ErrorKind::io, url.text(), ": expected a list of files");
      for (const Json& entry : answer) {
        if (std::optional<RemoteFile> file = remote_file(entry, repo_)) files.push_back(std::move(*file));
      }
      return next_page(response);
    });
    if (next.empty()) return files;
    url = join_url(url, next);
  }
  fail(ErrorKind::io, repo_, ": its list of files does not end");
}

HttpResponse HubApi::open(HttpClient& client, const std::string& commit, const RemoteFile& file,
                          int64_t offset) const {
  HttpHeaders range;
  if (offset > 0) range.emplace_back("Range", cat("bytes=", offset, "-"));
  const Url url = url_of("/" + repo_ + "/resolve/" + commit + "/" + percent_encoded(file.name));
  return get(client, url, range, commit, file.name, {200, 206, 416});
}

}  // namespace glint::hub
