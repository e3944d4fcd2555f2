// The files beside the shards, written when all shards are there: side files, index, configs, report and
// run-manifest.json.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "quantize/coder.h"
#include "quantize/journal.h"
#include "quantize/plan.h"

namespace glint::quantize {

struct RunFacts {
  std::string program_version;
  std::string started;  // ISO 8601, UTC
  std::string finished;
  double seconds = 0;  // of all runs together
  int64_t bytes_read = 0;
  bool resumed = false;
};

inline constexpr const char* kManifestName = "run-manifest.json";
inline constexpr const char* kReportName = "quantization-report.jsonl";

/// Totals of a conversion.
CodingStats total_stats(const std::vector<CodingStats>& stats);

/// Writes the files into `folder`, each whole or not at all, the manifest last.
void write_side_files(const Plan& plan, const QuantizeOptions& options, const std::vector<CodingStats>& stats,
                      const Journal& journal, const RunFacts& facts, const std::filesystem::path& folder);

/// True for a file of the source that belongs into the output as it is (tokenizer, templates, licence, code);
/// not for weights, configs that are written anew, model cards and hidden files.
bool is_side_file(const std::filesystem::path& path);

}  // namespace glint::quantize
