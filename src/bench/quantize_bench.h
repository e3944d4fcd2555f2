// How fast conversions are: the coder of one core beside a copy of the same bytes, and a whole conversion
// beside plain reading and writing of the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/cpu_features.h"
#include "bench/report.h"

namespace glint::bench {

struct QuantizeBenchOptions {
  Isa isa = Isa::portable;
  int workers = 0;  // of the conversion; 0: one per CPU
  int rounds = 3;
  std::filesystem::path config;  // bench/quantize-config.json: a stand-in of 4 GB
  std::filesystem::path folder;  // keeps the stand-in between runs; the output goes there too
};

/// One core, weights of 25 MB tensors from memory (and a small one from the cache): block maxima, coding by
/// the maximum, both together, coding with its error sums, the search; beside a copy of the weights in the
/// same run.
void bench_coding(const QuantizeBenchOptions& options, Report& report);

/// A conversion to nvfp4-experts, hashes and manifest included, from a source that is not in the page cache.
/// Its limit: reading the source with O_DIRECT, then writing files of the output's sizes with O_DIRECT and
/// fdatasync, in the same run. Rounds alternate; medians are reported.
void bench_conversion(const QuantizeBenchOptions& options, Report& report);

}  // namespace glint::bench
