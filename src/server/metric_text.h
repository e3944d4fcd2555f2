// Prometheus' text format, version 0.0.4.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace glint {

class MetricText {
 public:
  using Label = std::pair<std::string_view, std::string_view>;
  using Labels = std::initializer_list<Label>;

  /// Labels that every sample carries.
  explicit MetricText(Labels common);

  /// A family begins; its samples follow. A counter's name ends in _total.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(Labels labels, double value);
  void sample(Labels labels, uint64_t value);
  /// The samples of a histogram: `counts` per bucket, one more than bounds. Buckets above `largest` are
  /// joined with the last.
  void histogram(std::span<const double> bounds, std::span<const uint64_t> counts, double sum,
                 double largest);
  /// _sum and _count of a summary without quantiles.
  void summary(Labels labels, double sum, uint64_t count);

  [[nodiscard]] const std::string& text() const { return out_; }

 private:
  void line(std::string_view suffix, Labels labels, std::string_view value);

  std::string common_;
  std::string name_;
  std::string out_;
};

/// "0.3", "1.0", "2560.0": a bound as clients in Python write it.
std::string metric_bound(double bound);

}  // namespace glint
