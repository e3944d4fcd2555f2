// Reads Prometheus' text format back, for tests.
#pragma once

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

namespace glint {

/// Sample ("name{labels}" as written) to value. A line that is no comment and no sample appears as "BAD
/// line".
inline std::map<std::string, double> read_metrics(const std::string& page) {
  std::map<std::string, double> samples;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.rfind("} ");
    char* end = nullptr;
    const double value = space == std::string::npos ? 0 : std::strtod(line.c_str() + space + 2, &end);
    const bool good = end != nullptr && *end == '\0' && samples.count(line.substr(0, space + 1)) == 0;
    samples[good ? line.substr(0, space + 1) : "BAD " + line] = value;
  }
  return samples;
}

}  // namespace glint
