// What a conversion has finished, so that a killed one continues: one JSON line a fact, flushed to the disk
// before the next step counts on it. A line that a kill cut short is ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "quantize/coder.h"

namespace glint::quantize {

/// A finished output shard.
struct ShardRecord {
  int64_t bytes = 0;
  std::string sha256;
  std::vector<std::pair<std::string, CodingStats>>
      stats;  // of the tensors that were coded, in the plan's order
};

class Journal {
 public:
  static constexpr const char* kName = "quantize-journal.jsonl";

  /// Opens or makes `folder`/kName and locks it. Throws bad_input if another process holds it, or if it
  /// belongs to another plan.
  Journal(const std::filesystem::path& folder, const std::string& plan_hash);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  [[nodiscard]] const std::map<std::string, ShardRecord>& shards() const { return shards_; }
  [[nodiscard]] const std::map<std::string, std::string>& sources() const { return sources_; }
  /// Seconds that earlier runs worked, as far as they wrote it down.
  [[nodiscard]] double earlier_seconds() const { return earlier_seconds_; }

  /// Any thread. `seconds` is the run's time so far.
  void add_shard(const std::string& file, const ShardRecord& record, double seconds);
  void add_source(const std::string& file, const std::string& sha256, double seconds);
  /// Forgets shards that are no longer there.
  void forget_shard(const std::string& file) { shards_.erase(file); }

 private:
  void read(const std::string& text, const std::string& plan_hash);
  void append(const std::string& line);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::mutex mutex_;
  std::map<std::string, ShardRecord> shards_;
  std::map<std::string, std::string> sources_;
  double earlier_seconds_ = 0;
};

}  // namespace glint::quantize
