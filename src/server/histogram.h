// A histogram that several threads may feed without waiting for each other.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace glint {

class Histogram {
 public:
  /// Upper bounds of the buckets, ascending; one more holds what is larger.
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(std::make_unique<std::atomic<uint64_t>[]>(bounds_.size() + 1)) {}

  void observe(double value) {
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    counts_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  [[nodiscard]] std::span<const double> bounds() const { return bounds_; }
  /// Per bucket, not cumulated; bounds().size() + 1 of them.
  [[nodiscard]] std::vector<uint64_t> counts() const {
    std::vector<uint64_t> counts;
    for (size_t i = 0; i <= bounds_.size(); ++i) counts.push_back(counts_[i].load(std::memory_order_relaxed));
    return counts;
  }
  [[nodiscard]] double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;
  std::atomic<double> sum_{0};
};

}  // namespace glint
