// A stand-in model of about 1 GB: loading, prefill and decode, each beside its limit on this machine.
#pragma once

#include <filesystem>

#include "base/cpu_features.h"
#include "bench/report.h"

namespace glint::bench {

struct ModelBenchOptions {
  Isa isa = Isa::portable;
  int threads = 1;
  std::filesystem::path config;  // bench/cpu-config.json
  std::filesystem::path folder;  // where the stand-in checkpoints are kept between runs
  bool quick = false;            // 512 tokens instead of 4,096, fewer repetitions
};

/// For the FP8 and the BF16 form: the rate of loading against a plain read of the same files (both with the
/// files out of the page cache), prefill of 4,096 tokens, decode at context 4,096 with 1, 4 and 16 sequences,
/// and the engine's own time per step with 16 sequences. The limit of a step is the slower of reading the
/// bytes that it touches (of experts only those that were really chosen) at this process's memory rate, and
/// doing its multiply-adds at this process's rate of multiply-adds (BF16 dot products where the machine has
/// them).
void bench_model(const ModelBenchOptions& options, Report& report);

}  // namespace glint::bench
