#include "bench/kernel_bench.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <new>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/numeric.h"
#include "base/threads.h"
#include "bench/limits.h"
#include "bench/timing.h"
#include "ops/cpu/kernels.h"

namespace glint::bench {

namespace {

using ops::cpu::Kernels;

/// Memory as the operations hand it out: aligned to cache lines.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* memory, size_t /*count*/) { ::operator delete(memory, kLine); }
  bool operator==(const LineAllocator& /*other*/) const { return true; }
};
template <class T>
using AlignedVector = std::vector<T, LineAllocator<T>>;

constexpr int64_t kColumns = 2048;

struct Rates {
  double read = 0;        // bytes per second
  double arithmetic = 0;  // operations per second
};

const char* format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::f32:
      return "float32";
    case WeightFormat::bf16:
      return "bf16";
    case WeightFormat::fp8_block:
      return "fp8";
    case WeightFormat::nvfp4:
      return "nvfp4";
  }
  return "?";
}

/// A weight matrix in storage of its own: normally distributed numbers in the stored form, the same few over
/// and over.
struct Matrix {
  AlignedVector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<uint8_t> block_scales;
  Weight weight;

  [[nodiscard]] int64_t bytes() const {
    return static_cast<int64_t>(codes.size() + scales.size() * sizeof(float) + block_scales.size());
  }
};

int64_t bits_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::f32:
      return 32;
    case WeightFormat::bf16:
      return 16;
    case WeightFormat::fp8_block:
      return 8;
    case WeightFormat::nvfp4:
      return 4;
  }
  return 0;
}

std::vector<uint8_t> sample_codes(WeightFormat format) {
  constexpr size_t kSample = 1 << 14;
  std::vector<uint8_t> codes;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto append = [&](const auto& value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    codes.insert(codes.end(), bytes, bytes + sizeof value);
  };
  for (size_t i = 0; i < kSample; ++i) {
    switch (format) {
      case WeightFormat::f32:
        append(normal(random));
        break;
      case WeightFormat::bf16:
        append(float_to_bf16(normal(random)));
        break;
      case WeightFormat::fp8_block:
        append(float_to_e4m3(100.0F * normal(random)));
        break;
      case WeightFormat::nvfp4:
        append(static_cast<uint8_t>(random()));
        break;
    }
  }
  return codes;
}

Matrix make_matrix(WeightFormat format, int64_t rows, int64_t cols) {
  Matrix m;
  const std::vector<uint8_t> sample = sample_codes(format);
  m.codes.resize(static_cast<size_t>(rows * cols * bits_of(format) / 8));
  for (size_t i = 0; i < m.codes.size(); i += sample.size()) {
    std::copy_n(sample.begin(), std::min(sample.size(), m.codes.size() - i),
                m.codes.begin() + static_cast<int64_t>(i));
  }
  m.scales.assign(static_cast<size_t>((rows + 127) / 128 * ((cols + 127) / 128)), 0.002F);
  if (format == WeightFormat::nvfp4) m.block_scales.assign(static_cast<size_t>(rows * cols / 16), 0x55);
  m.weight = {format, rows, cols, m.codes.data(), m.scales.data(), m.block_scales.data(), 0.001F, false};
  return m;
}

AlignedVector<float> random_rows(int64_t rows, int64_t cols) {
  AlignedVector<float> x(static_cast<size_t>(rows * cols));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(random);
  return x;
}

class KernelBench {
 public:
  KernelBench(const KernelBenchOptions& options, Report& report)
      : options_(options),
        report_(report),
        pool_(options.threads),
        kernels_(ops::cpu::kernels(options.isa)) {}

  void run() {
    for (const auto format : {WeightFormat::bf16, WeightFormat::fp8_block, WeightFormat::nvfp4})
      few_rows(format);
    for (const auto format : {WeightFormat::bf16, WeightFormat::fp8_block, WeightFormat::nvfp4})
      many_rows(format);
    attention();
  }

 private:
  [[nodiscard]] int repetitions() const { return options_.quick ? 3 : 9; }

  /// The best of several runs, each beside limits measured right before it: on a shared machine only
  /// neighbours in time can be compared, and the best of each is what the hardware gave.
  double best_of(const std::function<void()>& body, std::span<const std::byte> bytes, bool dots,
                 Rates& rates) {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < repetitions(); ++i) {
      if (!bytes.empty()) rates.read = std::max(rates.read, read_rate(pool_, options_.isa, bytes));
      const double rate = dots ? bf16_dot_rate(pool_, options_.isa) : fma_rate(pool_, options_.isa);
      rates.arithmetic = std::max(rates.arithmetic, rate);
      best = std::min(best, time_of(body));
    }
    return best;
  }

  [[nodiscard]] bool uses_dots(WeightFormat format) const {
    return options_.isa == Isa::avx512_bf16 && format != WeightFormat::nvfp4 && format != WeightFormat::f32;
  }

  void matmul(const AlignedVector<float>& x, int64_t rows, const Weight& w, AlignedVector<float>& out) {
    const int64_t floats = kernels_.matmul_scratch_floats(w.cols);
    AlignedVector<float> scratch(static_cast<size_t>(floats * pool_.size()));
    const int64_t step =
        std::max<int64_t>(1, w.rows / kernels_.matmul_block / (pool_.size() * 8)) * kernels_.matmul_block;
    pool_.run((w.rows + step - 1) / step, [&](int64_t item, int worker) {
      const int64_t n0 = item * step;
      kernels_.matmul(x.data(), w.cols, rows, w, n0, std::min(w.rows, n0 + step), out.data() + n0, w.rows,
                      true, scratch.data() + worker * floats);
    });
  }

  void few_rows(WeightFormat format) {
    const int64_t bytes = int64_t{options_.quick ? 64 : 256} << 20;
    const Matrix m = make_matrix(format, bytes * 8 / bits_of(format) / kColumns, kColumns);
    for (const int64_t rows : {1, 2, 4, 8, 16}) {
      const AlignedVector<float> x = random_bf16_rows(rows, kColumns);
      AlignedVector<float> out(static_cast<size_t>(rows * m.weight.rows));
      Rates rates;
      const double seconds = best_of([&] { matmul(x, rows, m.weight, out); },
                                     std::as_bytes(std::span(m.codes)), uses_dots(format), rates);
      const double operations = 2.0 * static_cast<double>(rows * m.weight.rows * kColumns);
      const double read = static_cast<double>(m.bytes()) / rates.read;
      const double compute = operations / rates.arithmetic;
      const bool memory = read > compute;
      const double work = memory ? static_cast<double>(m.bytes()) / 1e9 : operations / 1e9;
      report_.add({.group = "weights from memory, K = 2048",
                   .name = cat(format_name(format), ", ", rows, rows == 1 ? " row" : " rows"),
                   .seconds = seconds,
                   .value = work / seconds,
                   .limit = work / std::max(read, compute),
                   .unit = memory ? "GB/s" : "GFLOP/s",
                   .limited_by = memory ? "memory" : arithmetic_name(format)});
    }
  }

  void many_rows(WeightFormat format) {
    const Matrix m = make_matrix(format, 2048, kColumns);
    for (const int64_t rows : {64, 256, 1024}) {
      const AlignedVector<float> x = random_bf16_rows(rows, kColumns);
      AlignedVector<float> out(static_cast<size_t>(rows * m.weight.rows));
      arithmetic("many rows, N = K = 2048", cat(format_name(format), ", ", rows, " rows"), uses_dots(format),
                 2 * rows * m.weight.rows * kColumns, [&] { matmul(x, rows, m.weight, out); });
    }
  }

  void arithmetic(const std::string& group, const std::string& name, bool dots, int64_t operations,
                  const std::function<void()>& body) {
    Rates rates;
    const double seconds = best_of(body, {}, dots, rates);
    report_.add({.group = group,
                 .name = name,
                 .seconds = seconds,
                 .value = static_cast<double>(operations) / seconds / 1e9,
                 .limit = rates.arithmetic / 1e9,
                 .unit = "GFLOP/s",
                 .limited_by = dots ? "BF16 dot" : "multiply-add"});
  }

  /// One item a thread of what a row of attention does: 32 heads over 512 selected rows of 576, and 32 index
  /// heads over 64 keys of 128.
  void attention() {
    constexpr int64_t kHeads = 32;
    constexpr int64_t kKeys = 512;
    constexpr int64_t kLatent = 512;
    constexpr int64_t kWidth = 576;
    constexpr int64_t kRepeat = 8;
    const auto threads = static_cast<int64_t>(pool_.size());
    const AlignedVector<float> q = random_rows(kHeads, kWidth);
    const AlignedVector<float> values = random_rows(threads * kKeys, kWidth);
    AlignedVector<float> scores = random_rows(threads * kHeads, kKeys);
    AlignedVector<float> out(static_cast<size_t>(threads * kHeads * kLatent));
    const auto each = [&](const std::function<void(int64_t)>& body) {
      pool_.run(threads, [&](int64_t item, int) {
        for (int64_t i = 0; i < kRepeat; ++i) body(item);
      });
    };
    const std::string group = "attention, 32 heads, 512 selected rows";
    arithmetic(group, "dot (scores)", false, 2 * kRepeat * threads * kHeads * kKeys * kWidth, [&] {
      each([&](int64_t i) {
        kernels_.dot(q.data(), kWidth, kHeads, &values[at(i * kKeys * kWidth)], kWidth, kKeys, kWidth,
                     &scores[at(i * kHeads * kKeys)], kKeys);
      });
    });
    arithmetic(group, "accumulate (values)", false, 2 * kRepeat * threads * kHeads * kKeys * kLatent, [&] {
      each([&](int64_t i) {
        kernels_.accumulate(&scores[at(i * kHeads * kKeys)], kKeys, kHeads, &values[at(i * kKeys * kWidth)],
                            kWidth, kKeys, kLatent, &out[at(i * kHeads * kLatent)], kLatent);
      });
    });
    arithmetic(group, "dot (index keys, K = 128, 64 keys)", false, 2 * kRepeat * threads * kHeads * 64 * 128,
               [&] {
                 each([&](int64_t i) {
                   kernels_.dot(q.data(), 128, kHeads, &values[at(i * kKeys * kWidth)], 128, 64, 128,
                                &scores[at(i * kHeads * kKeys)], 64);
                 });
               });
  }

  static size_t at(int64_t index) { return static_cast<size_t>(index); }

  [[nodiscard]] AlignedVector<float> random_bf16_rows(int64_t rows, int64_t cols) const {
    AlignedVector<float> x = random_rows(rows, cols);
    kernels_.round_bf16(x.data(), static_cast<int64_t>(x.size()));
    return x;
  }
  [[nodiscard]] std::string arithmetic_name(WeightFormat format) const {
    return uses_dots(format) ? "BF16 dot" : "multiply-add";
  }

  const KernelBenchOptions options_;
  Report& report_;
  ThreadPool pool_;
  const Kernels& kernels_;
};

}  // namespace

void bench_kernels(const KernelBenchOptions& options, Report& report) {
  KernelBench(options, report).run();
}

}  // namespace glint::bench
