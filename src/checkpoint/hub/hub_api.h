// What a hub says of a model, and its files as streams.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/hub/http_client.h"
#include "checkpoint/hub/retry.h"
#include "checkpoint/hub/settings.h"

namespace glint::hub {

/// A file at the top of a model's folder, as the hub lists it.
struct RemoteFile {
  std::string name;
  int64_t bytes = 0;
  std::string sum;  // SHA-256 (64 digits) of LFS files, git's SHA-1 of a blob (40 digits) of others
  [[nodiscard]] bool large() const { return sum.size() == 64; }
};

/// The answers of one hub about one model. Thread-safe: it holds no connection.
class HubApi {
 public:
  /// Both must outlive this. `repo` is a checked id, "ORG/NAME".
  HubApi(const HubSettings& settings, std::string repo);

  [[nodiscard]] const std::string& repo() const { return repo_; }

  /// The commit that a branch or tag stands for. Throws not_found or bad_input with one line for what the hub
  /// refuses, io when it does not answer, after settings.attempts.
  std::string commit_of(HttpClient& client, const std::string& revision, const StopFlag& stop) const;

  /// The files of a commit, without those in folders.
  std::vector<RemoteFile> files(HttpClient& client, const std::string& commit, const StopFlag& stop) const;

  /// Asks for the bytes from `offset` on, following redirects; the body is then read from `client`. The token
  /// goes to the hub alone. Status 200, 206 or 416; others are thrown, Retryable where another try may help.
  HttpResponse open(HttpClient& client, const std::string& commit, const RemoteFile& file,
                    int64_t offset) const;

 private:
  [[nodiscard]] HttpHeaders headers_for(const Url& url) const;
  /// Follows redirects; throws for every status but `accepted`.
  HttpResponse get(HttpClient& client, Url url, const HttpHeaders& extra, const std::string& revision,
                   const std::string& file, std::initializer_list<int> accepted) const;
  [[nodiscard]] Url url_of(const std::string& path) const;
  [[noreturn]] void refuse(HttpClient& client, const HttpResponse& response, const Url& url,
                           const std::string& revision, const std::string& file) const;

  const HubSettings& settings_;
  const std::string repo_;
};

}  // namespace glint::hub
