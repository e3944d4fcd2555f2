// run-manifest.json and the per-tensor report.
#pragma once

#include <string>
#include <vector>

#include "quantize/publish.h"

namespace glint::quantize {

/// A file of the output.
struct ManifestFile {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;
  int64_t tensors = 0;  // 0: no shard
};

/// What was converted, how, from what, with which errors. All but the member "run" depends only on the source
/// and the options. No host, user or absolute path.
std::string manifest_text(const Plan& plan, const QuantizeOptions& options,
                          const std::vector<CodingStats>& stats, const Journal& journal,
                          const RunFacts& facts, const std::vector<ManifestFile>& files);

/// One JSON line for each tensor that was coded: relative RMSE, SNR, largest magnitude and, with a search,
/// what it gained.
std::string report_text(const Plan& plan, const QuantizeOptions& options,
                        const std::vector<CodingStats>& stats);

/// 10 log10(power / error) in dB, at most 999 (no error at all).
double snr_db(double power, double error);

/// How much smaller the search made the relative RMSE, in percent.
double search_gain_percent(const CodingStats& stats);

}  // namespace glint::quantize
