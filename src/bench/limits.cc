#include "bench/limits.h"

#include <atomic>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/numeric.h"
#include "bench/limits_isa.h"
#include "bench/timing.h"

namespace glint::bench {

namespace {

LimitLoops loops_of(Isa isa) {
  switch (isa) {
#ifdef GLINT_X86_64
    case Isa::avx2:
      return avx2_limit_loops();
    case Isa::avx512:
      return avx512_limit_loops();
    case Isa::avx512_bf16:
      return avx512_bf16_limit_loops();
#endif
    default:
      return portable_limit_loops();
  }
}

double arithmetic_rate(ThreadPool& pool, int64_t (*loop)(int64_t, float*)) {
  constexpr int64_t kRounds = 2'000'000;  // some milliseconds, so that waking the threads does not count
  std::atomic<int64_t> operations{0};
  std::vector<float> sinks(static_cast<size_t>(pool.size()) * 16);
  const Stopwatch watch;
  pool.run(pool.size(),
           [&](int64_t item, int) { operations += loop(kRounds, &sinks[static_cast<size_t>(item) * 16]); });
  return static_cast<double>(operations) / watch.seconds();
}

uint64_t portable_read(const void* data, int64_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  uint64_t sum[4] = {};
  for (int64_t i = 0; i < bytes; i += 32) {
    for (int j = 0; j < 4; ++j) sum[j] ^= load_unaligned<uint64_t>(at + i + 8 * j);
  }
  return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

int64_t portable_fma(int64_t rounds, float* sink) {
  constexpr int kLanes = 16;
  float sums[kLanes] = {};
  rounds /= 8;
  for (int64_t i = 0; i < rounds; ++i) {
    for (float& sum : sums) sum = std::fma(sum, 0.5F, 1.0F);
  }
  for (const float sum : sums) *sink += sum;
  return rounds * kLanes * 2;
}

}  // namespace

LimitLoops portable_limit_loops() {
  return {portable_read, portable_fma, nullptr};
}

double read_rate(ThreadPool& pool, Isa isa, std::span<const std::byte> bytes) {
  const auto read = loops_of(isa).read;
  const int64_t part = static_cast<int64_t>(bytes.size()) / pool.size() / 512 * 512;
  GLINT_CHECK(part > 0);
  std::atomic<uint64_t> sink{0};
  const Stopwatch watch;
  pool.run(pool.size(), [&](int64_t item, int) { sink ^= read(bytes.data() + item * part, part); });
  return static_cast<double>(part * pool.size()) / watch.seconds();
}

double fma_rate(ThreadPool& pool, Isa isa) {
  return arithmetic_rate(pool, loops_of(isa).fma);
}

double bf16_dot_rate(ThreadPool& pool, Isa isa) {
  const auto loop = loops_of(isa).bf16_dot;
  return loop == nullptr ? 0.0 : arithmetic_rate(pool, loop);
}

}  // namespace glint::bench
