// Which files of a model's repository are used.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/hub/hub_api.h"
#include "checkpoint/hub/resolve.h"

namespace glint::hub {

inline constexpr const char* kIndexName = "model.safetensors.index.json";
inline constexpr const char* kSingleShardName = "model.safetensors";

/// The small files of `listing` that `wanted` asks for, config.json last: who has it has the others.
/// Throws not_found if there is no config.json.
std::vector<RemoteFile> small_files(const std::vector<RemoteFile>& listing, ModelFiles wanted,
                                    const std::string& repo);

/// The shards that the index in `snapshot` names, or the one shard of a model without an index. Throws
/// not_found if the listing lacks one, bad_input for a broken index.
std::vector<RemoteFile> shard_files(const std::vector<RemoteFile>& listing,
                                    const std::filesystem::path& snapshot, const std::string& repo);

/// The first file of `wanted` that a snapshot lacks, std::nullopt if it is whole. Files that a model may do
/// without are not looked for, but the tokenizer is, unless `frugal`.
std::optional<std::string> missing_file(const std::filesystem::path& snapshot, ModelFiles wanted,
                                        bool frugal);

}  // namespace glint::hub
