// The kernels alone, each beside the limit that binds it.
#pragma once

#include "base/cpu_features.h"
#include "bench/report.h"

namespace glint::bench {

struct KernelBenchOptions {
  Isa isa = Isa::portable;
  int threads = 1;
  bool quick = false;  // a quarter of the memory and of the repetitions
};

/// Matrix products of the three stored forms for 1 to 256 rows, the attention's two products, the indexer's
/// sum and the vector operations. Weights of few rows come from memory (several times the last-level cache),
/// never twice from the cache; their limit is the slower of reading the bytes and doing the multiply-adds,
/// both measured here.
void bench_kernels(const KernelBenchOptions& options, Report& report);

}  // namespace glint::bench
