// From what a user calls a model to a folder with its files.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace glint {

/// Which files are wanted of a model on a hub.
enum class ModelFiles {
  config,  // config.json, hf_quant_config.json
  text,    // with generation_config.json, the tokenizer's files and the chat template
  all,     // with the index and the shards that it names
};

struct ResolveOptions {
  ModelFiles files = ModelFiles::all;
  std::string revision;                // branch, tag or commit; empty: main
  std::filesystem::path download_dir;  // in place of Hugging Face's cache, with the same layout; empty: that
  bool refresh = false;                // ask the hub even if the cache has the files
  std::chrono::milliseconds first_pause{1'000};  // before the second attempt at a request; doubles each time
  /// Called now and then while files come; false stops, and resolve_model returns std::nullopt.
  std::function<bool(int64_t done_bytes, int64_t total_bytes)> progress;
};

struct ResolvedModel {
  enum class Source { folder, cache, hub };
  std::filesystem::path folder;
  Source source = Source::folder;
  std::string commit;  // of the cache and the hub
};

/// `name` is, in this order: a folder (or a file, for commands that take a config.json) that exists; a model
/// in the cache of Hugging Face whose wanted files are all there, which needs no network; a model of the hub,
/// ORG/NAME, whose missing files are downloaded into that cache. What the environment says (HF_HUB_CACHE,
/// HF_HOME, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, ...) holds: docs/models.md. Throws one-line errors.
std::optional<ResolvedModel> resolve_model(const std::string& name, const ResolveOptions& options = {});

}  // namespace glint
