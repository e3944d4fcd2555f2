// What xgrammar says while it compiles: its warnings are the parts of a schema that it would leave out.
#pragma once

#include <string>
#include <vector>

namespace glint {

/// Collects the warnings of this thread while it lives; without one they are dropped.
class XgrammarWarnings {
 public:
  XgrammarWarnings();
  ~XgrammarWarnings();
  XgrammarWarnings(const XgrammarWarnings&) = delete;
  XgrammarWarnings& operator=(const XgrammarWarnings&) = delete;
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
  void add(const std::string& line) {
    if (lines_.size() < 8) lines_.push_back(line);
  }

 private:
  std::vector<std::string> lines_;
  XgrammarWarnings* outer_;
};

}  // namespace glint
