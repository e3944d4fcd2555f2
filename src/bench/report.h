// Measurements and how they are shown.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/json.h"

namespace glint::bench {

/// One measured thing beside the limit that it is held against.
struct Measurement {
  std::string group;       // "kernel", "load", "prefill", "decode"
  std::string name;        // what was measured
  double seconds = 0;      // of one run
  double value = 0;        // in `unit`
  double limit = 0;        // in `unit`; 0: none
  std::string unit;        // "GB/s", "GFLOP/s", "tokens/s"
  std::string limited_by;  // "memory", "multiply-add", "BF16 dot", "memory + arithmetic"

  [[nodiscard]] double percent() const { return limit > 0 ? 100.0 * value / limit : 0.0; }
};

/// Prints each measurement as it comes and keeps all of them for a JSON file.
class Report {
 public:
  explicit Report(std::ostream& out) : out_(out) {}

  /// A fact about the machine or the run: printed as "name: value".
  void note(const std::string& name, const Json& value);
  void add(const Measurement& measurement);
  /// {"notes": {...}, "measurements": [...]}, written atomically.
  void write_json(const std::filesystem::path& file) const;

 private:
  std::ostream& out_;
  std::string group_;
  Json notes_ = Json::object();
  std::vector<Measurement> measurements_;
};

}  // namespace glint::bench
