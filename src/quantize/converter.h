// Runs a plan: lanes read the source files side by side, partners meet, coded tensors are written, complete
// shards are hashed, flushed and named.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "quantize/buffers.h"
#include "quantize/coder.h"
#include "quantize/journal.h"
#include "quantize/output_files.h"
#include "quantize/plan.h"
#include "quantize/read_ahead.h"

namespace glint::quantize {

/// A tensor's BF16 weights and what has been found out about them.
struct Weights {
  uint32_t job = 0;
  Buffer memory;  // keeps `bits` alive
  std::span<const uint16_t> bits;
  std::vector<uint16_t> block_amax;
  uint16_t amax = 0;
};

struct ConverterOptions {
  std::filesystem::path folder;  // where shards are written; empty: nothing is
  size_t lanes_max = SIZE_MAX;   // convert the first ones only (with an empty folder)
  std::function<void(int64_t done, int64_t total)>
      progress;                                    // about ten times a second, on the calling thread
  std::function<void(std::string_view)> at_place;  // see quantize.h
};

class Converter {
 public:
  /// `journal` may be nullptr: then nothing is skipped or written down. All must outlive it.
  Converter(const QuantizeOptions& options, const Plan& plan, Journal* journal, ConverterOptions more);

  /// Converts what the journal does not have yet. Throws the first error of any thread.
  void run();

  /// By job; `coded` is false for those that were copied.
  [[nodiscard]] const std::vector<CodingStats>& stats() const { return stats_; }
  [[nodiscard]] int64_t bytes_read() const { return bytes_read_; }
  [[nodiscard]] int64_t peak_buffer_bytes() const { return pool_.peak_bytes(); }

 private:
  class LaneRun;

  void take_earlier_work();
  [[nodiscard]] bool lane_needed(const Lane& lane) const;
  [[nodiscard]] bool hash_needed(uint32_t file) const;
  [[nodiscard]] bool step_needed(const LaneStep& step) const;
  void lane_loop();
  void finish_loop();
  void finish_shard(uint32_t shard);
  void watch();
  void fail_all(std::exception_ptr failure);
  void meet(Weights weights);
  void code(const Weights& weights, uint16_t group_amax);
  [[nodiscard]] double seconds() const;

  const QuantizeOptions& options_;
  const Plan& plan_;
  Journal* journal_;
  ConverterOptions more_;
  const Codec& codec_;
  BufferPool pool_;
  OutputFiles files_;
  std::vector<CodingStats> stats_;

  std::vector<uint32_t> lanes_;  // those with work left
  std::atomic<size_t> next_lane_{0};
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> bytes_read_{0};
  std::atomic<int64_t> bytes_done_{0};
  int64_t bytes_total_ = 0;

  std::mutex waiting_mutex_;
  std::map<uint32_t, Weights> waiting_;  // by job

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<uint32_t> complete_;
  int lanes_running_ = 0;
  int finishers_running_ = 0;
  std::exception_ptr failure_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace glint::quantize
