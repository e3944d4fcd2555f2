#include "checkpoint/hub/model_files.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/index.h"

namespace glint::hub {

namespace {

constexpr const char* kConfigName = "config.json";
constexpr const char* kTokenizerName = "tokenizer.json";
constexpr std::array<const char*, 1> kConfigFiles{"hf_quant_config.json"};
constexpr std::array<const char*, 5> kTextFiles{"generation_config.json", "tokenizer_config.json",
                                                "special_tokens_map.json", "chat_template.jinja",
                                                kTokenizerName};

const RemoteFile* find(const std::vector<RemoteFile>& listing, std::string_view name) {
  const auto found =
      std::find_if(listing.begin(), listing.end(), [&](const RemoteFile& file) { return file.name == name; });
  return found == listing.end() ? nullptr : &*found;
}

bool there(const std::filesystem::path& snapshot, const std::string& name) {
  std::error_code error;
  return std::filesystem::is_regular_file(snapshot / name, error);
}

/// Shards by the index of the folder; the single shard without one.
std::vector<std::string> shard_names(const std::filesystem::path& snapshot) {
  if (!there(snapshot, kIndexName)) return {kSingleShardName};
  return parse_checkpoint_index(read_file(snapshot / kIndexName), (snapshot / kIndexName).string()).files;
}

}  // namespace

std::vector<RemoteFile> small_files(const std::vector<RemoteFile>& listing, ModelFiles wanted,
                                    const std::string& repo) {
  std::vector<RemoteFile> files;
  const auto take = [&](const char* name) {
    if (const RemoteFile* file = find(listing, name); file != nullptr) files.push_back(*file);
  };
  for (const char* name : kConfigFiles) take(name);
  if (wanted != ModelFiles::config) {
    for (const char* name : kTextFiles) take(name);
  }
  if (wanted == ModelFiles::all) take(kIndexName);
  if (find(listing, kConfigName) == nullptr) {
    fail(ErrorKind::not_found, repo, " does not contain config.json");
  }
  take(kConfigName);
  return files;
}

std::vector<RemoteFile> shard_files(const std::vector<RemoteFile>& listing,
                                    const std::filesystem::path& snapshot, const std::string& repo) {
  std::vector<RemoteFile> files;
  for (const std::string& name : shard_names(snapshot)) {
    const RemoteFile* const file = find(listing, name);
    if (file == nullptr && name == kSingleShardName && !there(snapshot, kIndexName)) {
      fail(ErrorKind::not_found, repo, " has neither ", kIndexName, " nor ", kSingleShardName,
           ": weights in safetensors are needed");
    }
    if (file == nullptr) {
      fail(ErrorKind::not_found, repo, " has no file ", name, ", which its ", kIndexName, " names");
    }
    files.push_back(*file);
  }
  return files;
}

std::optional<std::string> missing_file(const std::filesystem::path& snapshot, ModelFiles wanted,
                                        bool frugal) {
  if (!there(snapshot, kConfigName)) return kConfigName;
  if (wanted == ModelFiles::config) return std::nullopt;
  if (!frugal && !there(snapshot, kTokenizerName)) return kTokenizerName;
  if (wanted == ModelFiles::text) return std::nullopt;
  for (const std::string& name : shard_names(snapshot)) {
    if (!there(snapshot, name)) return name;
  }
  return std::nullopt;
}

}  // namespace glint::hub
