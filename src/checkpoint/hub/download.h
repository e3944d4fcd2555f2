// Many files of one commit, several at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/hub/hub_api.h"
#include "checkpoint/hub/repo_cache.h"

namespace glint::hub {

/// Called from the caller's thread now and then; false stops.
using DownloadProgress = std::function<bool(int64_t done_bytes, int64_t total_bytes)>;

/// Brings `files` of `commit` into the snapshot, up to settings.connections at once; files that are there are
/// left alone, files that another process downloads are waited for. Throws io before anything is sent for if
/// the disk has too little room, and the first failure of a file, when the others have stopped; what came is
/// kept for the next time. False if `progress` said stop.
bool download_files(const HubSettings& settings, const HubApi& api, const RepoCache& cache,
                    const std::string& commit, const std::vector<RemoteFile>& files,
                    const DownloadProgress& progress);

}  // namespace glint::hub
