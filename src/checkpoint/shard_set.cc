#include "checkpoint/shard_set.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "checkpoint/index.h"

namespace glint {

namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

/// The index and the headers must agree: some readers believe one, some the other.
void compare(const CheckpointIndex& index, const std::vector<SafetensorsFile>& shards,
             const std::string& listing) {
  for (const auto& [name, file] : index.tensors) {
    if (shards[file].table().find(name) != nullptr) continue;
    fail(ErrorKind::bad_input, shards[file].path().string(), ": tensor ", json_quoted(name),
         " is missing, which ", kIndexName, " says is here");
  }
  size_t stored = 0;
  for (const SafetensorsFile& shard : shards) stored += shard.table().tensors().size();
  if (stored == index.tensors.size()) return;
  for (size_t file = 0; file < shards.size(); ++file) {
    for (const TensorEntry& entry : shards[file].table().tensors()) {
      const auto at =
          std::lower_bound(index.tensors.begin(), index.tensors.end(), entry.name,
                           [](const auto& a, const std::string& wanted) { return a.first < wanted; });
      if (at != index.tensors.end() && at->first == entry.name && at->second == file) continue;
      fail(ErrorKind::bad_input, shards[file].path().string(), ": tensor ", json_quoted(entry.name),
           " is unknown: ", listing, " does not say that it is here");
    }
  }
}

/// Opens all files at once, because reading 232,385 headers takes a while; the first bad one in order is
/// reported.
std::vector<SafetensorsFile> open_files(const std::filesystem::path& folder,
                                        const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::filesystem::exists(folder / name)) continue;
    fail(ErrorKind::not_found, (folder / name).string(), ": this shard is missing, which ", kIndexName,
         " names (", names.size(), " shards in all)");
  }
  std::vector<std::optional<SafetensorsFile>> opened(names.size());
  std::vector<std::exception_ptr> failures(names.size());
  ThreadPool pool;
  pool.run(static_cast<int64_t>(names.size()), [&](int64_t item, int) {
    const auto i = static_cast<size_t>(item);
    try {
      opened[i].emplace(folder / names[i]);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  });
  std::vector<SafetensorsFile> files;
  files.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (failures[i]) std::rethrow_exception(failures[i]);
    files.push_back(std::move(*opened[i]));
  }
  return files;
}

}  // namespace

ShardSet open_shards(const std::filesystem::path& folder) {
  ShardSet set;
  const std::filesystem::path index_path = folder / kIndexName;
  const std::filesystem::path single_path = folder / kSingleName;
  if (!std::filesystem::exists(index_path)) {
    if (!std::filesystem::exists(single_path)) {
      fail(ErrorKind::not_found, folder.string(), ": has neither ", kIndexName, " nor ", kSingleName);
    }
    set.listing = single_path.string();
    set.shards.emplace_back(single_path);
    return set;
  }
  set.listing = index_path.string();
  const CheckpointIndex index = parse_checkpoint_index(read_file(index_path), set.listing);
  set.shards = open_files(folder, index.files);
  compare(index, set.shards, kIndexName);
  return set;
}

}  // namespace glint
