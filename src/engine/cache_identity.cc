#include "engine/cache_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/build_id.h"
#include "base/error.h"
#include "base/file.h"
#include "cache/page_hash.h"

namespace glint {

namespace {

constexpr int kSamples = 16;
constexpr int64_t kSampleBytes = 4096;

/// What identifies a file without reading all of it.
std::string file_facts(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  std::string facts;
  bool good = fd >= 0 && ::fstat(fd, &info) == 0;
  if (good) {
    facts = cat(path.filename().string(), " ", info.st_size, " ", info.st_mtim.tv_sec, ".",
                info.st_mtim.tv_nsec, "\n");
    const int64_t reach = std::max<int64_t>(0, info.st_size - kSampleBytes);
    std::array<char, kSampleBytes> block;
    for (int64_t i = 0; good && i < kSamples; ++i) {
      const ssize_t got = ::pread(fd, block.data(), block.size(), reach * i / (kSamples - 1));
      good = got >= 0;
      if (good) facts.append(block.data(), static_cast<size_t>(got));
    }
  }
  const int code = errno;
  if (fd >= 0) ::close(fd);
  if (!good) fail(ErrorKind::io, path.string(), ": cannot read: ", std::strerror(code));
  return facts;
}

}  // namespace

std::string weights_fingerprint(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> shards;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") shards.push_back(entry.path());
  }
  std::sort(shards.begin(), shards.end());
  std::string sum = hex(chain_root("config", read_file(folder / "config.json")));
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  if (std::filesystem::exists(index)) sum = hex(chain_root(sum, read_file(index)));
  for (const auto& shard : shards) sum = hex(chain_root(sum, file_facts(shard)));
  return sum;
}

std::string cache_identity_text(const CacheIdentity& identity) {
  return cat("weights ", identity.weights_made ? "made " : "", weights_fingerprint(identity.folder),
             "\ncompute ", identity.dtype == ops::ComputeDType::float32 ? "float32" : "bfloat16", "\ncache ",
             kv_cache_dtype_name(identity.kv_cache_dtype), "\npage ", ops::kPageTokens, " tokens ",
             identity.page_bytes, " bytes\nmtp ", identity.with_mtp ? "filled" : "empty", "\nbackend ",
             identity.gpu.empty() ? cat("cpu ", isa_name(identity.isa)) : cat("cuda ", identity.gpu),
             "\nbuild ", build_id(), "\n");
}

}  // namespace glint
