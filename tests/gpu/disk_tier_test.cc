// The prefix cache's tier on disk under a cache on the GPU: answers, with the bits of their logprobs, are the
// same cold, from pages that were read back, after a restart, and around damaged files.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness.h"
#include "nano_serving.h"

namespace glint::gpu {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / cat("glint-gpu-tier-", ::getpid())) { clear(); }
  ~Folder() { clear(); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }
  /// Overwrites some bytes of every other page. Returns how many were hit.
  [[nodiscard]] uint64_t damage() const {
    uint64_t seen = 0;
    uint64_t hit = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      if (entry.path().extension() != ".page" || ++seen % 2 == 0) continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(4096 + static_cast<std::streamoff>(seen * 13 % 2000));
      file.write("damage", 6);
      ++hit;
    }
    return hit;
  }

 private:
  void clear() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path path_;
};

/// Texts of some pages each.
std::vector<std::string> long_prompts() {
  std::vector<std::string> texts;
  for (const std::string& text : prompts()) {
    if (text.size() >= 600 && text.size() <= 1500 && texts.size() < 24) texts.push_back(text);
  }
  return texts;
}

void restores_pages(KvCacheDType cache, int64_t drafts, int32_t logprobs) {
  const std::vector<std::string> texts = long_prompts();
  const Folder folder;
  const CudaSettings invariant{.batch_invariant = true};
  const std::vector<Answer> plain = serve_nano(
      {.together = false, .prefix_caching = false, .cuda = invariant, .cache = cache, .logprobs = logprobs},
      texts);
  const NanoServing tiered{.drafts = drafts,
                           .cuda = invariant,
                           .cache = cache,
                           .max_model_len = 1024,
                           .cached_tokens_max = 2048,
                           .disk = folder.path(),
                           .logprobs = logprobs};
  const auto run = [&](NanoEngine& nano, const char* what) {
    const EngineStats before = nano.engine().stats();
    const std::vector<Answer> answers = nano.answers(texts);
    for (size_t i = 0; i < texts.size(); ++i)
      expect(answers[i] == plain[i], what, ": answer ", i, " differs");
    const EngineStats after = nano.engine().stats();
    const auto restored = after.tier_hits_tokens - before.tier_hits_tokens;
    note(cat("; ", what, ": ", restored, " tokens from disk"));
    expect(after.tier.read_errors + after.tier.write_errors + after.tier.timeouts == 0, what,
           ": the disk failed");
    return restored;
  };
  {
    NanoEngine nano(tiered);
    run(nano, "cold");
    expect(run(nano, "evicted") > 0, "nothing was restored of what memory had no room for");
  }
  uint64_t whole = 0;
  {
    NanoEngine nano(tiered);
    whole = run(nano, "restarted");
    expect(whole > 64 * texts.size(), "a restart restored ", whole, " tokens");
    expect(nano.engine().stats().tier.damaged == 0, "damaged pages");
  }
  expect(folder.damage() > texts.size(), "few pages");
  {
    NanoEngine nano(tiered);
    const uint64_t restored = run(nano, "damaged");
    expect(nano.engine().stats().tier.damaged > 0 && restored < whole, "no damage was seen");
  }
}

const Register kAll[] = {
    {"disk tier, bfloat16 cache", [] { restores_pages(KvCacheDType::bfloat16, 0, 2); }},
    {"disk tier, fp8 cache, three drafts", [] { restores_pages(KvCacheDType::fp8, 3, 2); }},
    {"disk tier, rounds with three drafts", [] { restores_pages(KvCacheDType::bfloat16, 3, 0); }},
};

}  // namespace
}  // namespace glint::gpu
