// What a cached page's bytes depend on besides its tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/cpu_features.h"
#include "cache/paged_cache.h"
#include "ops/types.h"

namespace glint {

/// Hexadecimal, over config.json, the index and, for each *.safetensors file of the folder in order of name:
/// name, size, time of last change in nanoseconds, and 16 blocks of 4096 bytes spread evenly from its first
/// to its last byte. Reads 64 KiB a file.
///
/// It tells checkpoints apart that differ in config, tensors, sizes or training; a file that was edited in
/// place or replaced differs by its time at least. A copy of a checkpoint with other times counts as another
/// one: its pages are computed again. It does not notice a change of bytes between the samples under which
/// size and time were kept the same on purpose.
std::string weights_fingerprint(const std::filesystem::path& folder);

struct CacheIdentity {
  std::filesystem::path folder;  // of the checkpoint
  bool weights_made = false;     // not read from it: made from its config.json
  ops::ComputeDType dtype = ops::ComputeDType::bfloat16;
  KvCacheDType kv_cache_dtype = KvCacheDType::bfloat16;
  int64_t page_bytes = 0;
  Isa isa = Isa::portable;  // sums are ordered differently in each
  std::string gpu;          // its name; empty: the CPU computes
  bool with_mtp = false;    // without, the MTP layer's rows are not filled
};

/// For chain_root(): one line a fact. The program's build is one of them, since another build may order a sum
/// differently. One process keeps to one identity, so equal hashes mean equal bytes.
std::string cache_identity_text(const CacheIdentity& identity);

}  // namespace glint
