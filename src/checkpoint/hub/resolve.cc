#include "checkpoint/hub/resolve.h"

#include <algorithm>

#include "base/log.h"
#include "checkpoint/bundled_model.h"
#include "checkpoint/hub/download.h"
#include "checkpoint/hub/model_files.h"

namespace glint {

namespace {

using namespace hub;

constexpr size_t kPartCharactersMax = 96;

/// One half of an id, by the hub's rules.
bool is_id_part(std::string_view part) {
  const bool legal = std::all_of(part.begin(), part.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
  return legal && !part.empty() && part.size() <= kPartCharactersMax && part.front() != '-' &&
         part.front() != '.' && part.back() != '-' && part.back() != '.' &&
         part.find("--") == std::string_view::npos && part.find("..") == std::string_view::npos;
}

bool is_repo_id(std::string_view name) {
  const size_t slash = name.find('/');
  return slash != std::string_view::npos && is_id_part(name.substr(0, slash)) &&
         is_id_part(name.substr(slash + 1));
}

void check_repo_id(const std::string& name) {
  if (is_repo_id(name)) return;
  fail(ErrorKind::not_found, name,
       ": no such folder; expected one with config.json, tokenizer.json and safetensors, ",
       "or a model of the hub as ORG/NAME");
}

/// A model of the hub and its place in the cache.
class HubModel {
 public:
  HubModel(const std::string& repo, const ResolveOptions& options)
      : options_(options),
        revision_(options.revision.empty() ? "main" : options.revision),
        settings_(hub_settings()),
        cache_(options.download_dir.empty() ? settings_.cache : options.download_dir, repo),
        api_(settings_, repo) {
    check_revision(revision_);
    settings_.first_pause = options.first_pause;
  }

  std::optional<ResolvedModel> resolve() {
    const std::optional<std::string> known = cache_.commit_of(revision_);
    if (known && (!options_.refresh || settings_.offline)) {
      const auto missing = missing_file(cache_.snapshot(*known), options_.files, settings_.offline);
      if (!missing) return from_cache(*known);
    }
    if (settings_.offline) fail_offline(known);
    return from_hub();
  }

 private:
  [[nodiscard]] ResolvedModel from_cache(const std::string& commit) const {
    log_debug(api_.repo(), ": ", cache_.snapshot(commit).string());
    return {cache_.snapshot(commit), ResolvedModel::Source::cache, commit};
  }

  [[noreturn]] void fail_offline(const std::optional<std::string>& known) const {
    std::string state = ": not in the cache " + cache_.root().string();
    if (known) {
      state = cat(": the cache lacks ",
                  missing_file(cache_.snapshot(*known), options_.files, true).value_or("nothing"),
                  " of commit ", *known, " (", cache_.snapshot(*known).string(), ")");
    } else if (revision_ != "main") {
      state += cat(" at revision ", revision_);
    }
    fail(ErrorKind::not_found, api_.repo(), state, ", and HF_HUB_OFFLINE forbids to download it");
  }

  std::optional<ResolvedModel> from_hub() {
    HttpClient client(settings_.http);
    const StopFlag never{false};
    const std::string commit = is_commit(revision_) ? revision_ : api_.commit_of(client, revision_, never);
    const std::vector<RemoteFile> listing = api_.files(client, commit, never);
    const std::filesystem::path snapshot = cache_.snapshot(commit);
    if (!fetch(commit, small_files(listing, options_.files, api_.repo()))) return std::nullopt;
    if (options_.files == ModelFiles::all && !fetch(commit, shard_files(listing, snapshot, api_.repo()))) {
      return std::nullopt;
    }
    // A look at the config of a newer commit must not hide an older one that is whole.
    if (options_.files == ModelFiles::all || !cache_.commit_of(revision_))
      cache_.write_ref(revision_, commit);
    return ResolvedModel{snapshot, ResolvedModel::Source::hub, commit};
  }

  bool fetch(const std::string& commit, const std::vector<RemoteFile>& files) {
    return download_files(settings_, api_, cache_, commit, files, options_.progress);
  }

  const ResolveOptions& options_;
  const std::string revision_;
  HubSettings settings_;
  RepoCache cache_;
  HubApi api_;
};

}  // namespace

std::optional<ResolvedModel> resolve_model(const std::string& name, const ResolveOptions& options) {
  std::error_code error;
  if (std::filesystem::exists(name, error)) {
    return ResolvedModel{name, ResolvedModel::Source::folder, {}};
  }
  if (const auto folder = find_bundled_model(name)) {
    return ResolvedModel{*folder, ResolvedModel::Source::folder, {}};
  }
  check_repo_id(name);
  return HubModel(name, options).resolve();
}

}  // namespace glint
