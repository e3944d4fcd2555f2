// Mean, median, deviation and percentiles as NumPy defines them; an empty sample counts as one zero.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace glint::bench {

class SampleStatistics {
 public:
  explicit SampleStatistics(std::vector<double> values) : sorted_(std::move(values)) {
    if (sorted_.empty()) sorted_.push_back(0);
    std::sort(sorted_.begin(), sorted_.end());
  }

  [[nodiscard]] double mean() const {
    return std::accumulate(sorted_.begin(), sorted_.end(), 0.0) / static_cast<double>(sorted_.size());
  }
  /// Of the population: divided by the number of values.
  [[nodiscard]] double standard_deviation() const {
    const double center = mean();
    double sum = 0;
    for (const double value : sorted_) sum += (value - center) * (value - center);
    return std::sqrt(sum / static_cast<double>(sorted_.size()));
  }
  [[nodiscard]] double median() const {
    const size_t middle = sorted_.size() / 2;
    return sorted_.size() % 2 == 1 ? sorted_[middle] : (sorted_[middle - 1] + sorted_[middle]) / 2;
  }
  /// `percent` from 0 to 100; linear between neighbours.
  [[nodiscard]] double percentile(double percent) const {
    const double place = percent / 100.0 * static_cast<double>(sorted_.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, sorted_.size() - 1);
    const double share = place - static_cast<double>(below);
    const double step = sorted_[above] - sorted_[below];
    return share < 0.5 ? sorted_[below] + step * share : sorted_[above] - step * (1.0 - share);
  }
  [[nodiscard]] double maximum() const { return sorted_.back(); }

 private:
  std::vector<double> sorted_;
};

}  // namespace glint::bench
