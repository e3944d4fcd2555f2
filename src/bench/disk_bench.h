// The disk tier beside a plain copy of the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>

#include "bench/report.h"

namespace glint::bench {

struct DiskBenchOptions {
  std::filesystem::path folder;      // on the device in question; what is written there is removed
  int64_t pages = 64;                // of one run
  int64_t page_bytes = 64 * 54'728;  // the published model's, FP8 with the MTP layer
  int rounds = 5;                    // medians are taken over them
};

/// Each round writes and reads the same pages four ways: as one plain file through the page cache and past it
/// (one thread, page by page, data on the device before the clock stops, page cache dropped before reading),
/// and through the tier (checksums, one file a page). The limit is the faster plain way.
void bench_disk(const DiskBenchOptions& options, Report& report);

}  // namespace glint::bench
