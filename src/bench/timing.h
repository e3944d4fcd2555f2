// Wall-clock measurement.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace glint::bench {

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Seconds that one call of `body` takes.
template <class Body>
double time_of(const Body& body) {
  const Stopwatch watch;
  body();
  return watch.seconds();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace glint::bench
