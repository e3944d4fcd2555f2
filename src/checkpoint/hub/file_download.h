// One file from the hub into the cache: resumed, checked, published whole or not at all.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "checkpoint/hub/hub_api.h"
#include "checkpoint/hub/partial_file.h"
#include "checkpoint/hub/repo_cache.h"

namespace glint::hub {

class FileDownload {
 public:
  /// All must outlive this. `arrived` counts bytes of the file that are here, whoever brought them.
  FileDownload(const HubSettings& settings, const HubApi& api, const RepoCache& cache,
               const std::string& commit, const RemoteFile& file, std::atomic<int64_t>& arrived,
               const StopFlag& stop);

  /// Whether the snapshot has the file with the listed size.
  [[nodiscard]] bool present() const;
  /// Bytes that are still to come.
  [[nodiscard]] int64_t missing_bytes() const;

  /// Brings the file. False if another process is at it: ask again later. Throws what HubApi and PartialFile
  /// throw, io if the bytes are not those of the listing, Stopped.
  bool run(HttpClient& client);

 private:
  void fetch(HttpClient& client);
  /// One request, appended to `part`.
  void receive(HttpClient& client, PartialFile& part, Patience& patience);
  void check_head(const HttpResponse& response, PartialFile& part);
  /// Starts again from nothing; throws io if that happens too often.
  void restart(PartialFile& part, const std::string& why);

  const HubSettings& settings_;
  const HubApi& api_;
  const RepoCache& cache_;
  const std::string& commit_;
  const RemoteFile& file_;
  std::atomic<int64_t>& arrived_;
  const StopFlag& stop_;
  int restarts_ = 0;
};

}  // namespace glint::hub
