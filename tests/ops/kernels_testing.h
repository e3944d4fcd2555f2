// What the kernel tests share: buffers between unreadable pages, weights with an oracle in float64, error
// bounds.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "ops/cpu/kernels.h"

namespace glint::ops::cpu {

/// Where a buffer touches an unreadable page.
enum class Edge { end, begin };

/// `count` values that end right before, or begin right after, a page that must not be touched. Starts as
/// poison.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t count, Edge edge = Edge::end) : count_(static_cast<size_t>(count)) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (count_ * sizeof(T) + page - 1) / page * page + page;
    bytes_ = inner + 2 * page;
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(memory);
    std::memset(base_, 0xA5, bytes_);
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + page + inner, page, PROT_NONE);
    data_ = edge == Edge::end ? base_ + page + inner - count_ * sizeof(T) : base_ + page;
  }
  Guarded(const std::vector<T>& values, Edge edge) : Guarded(static_cast<int64_t>(values.size()), edge) {
    if (!values.empty()) std::memcpy(data_, values.data(), values.size() * sizeof(T));
  }
  ~Guarded() { munmap(base_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  // Values of two and four bytes stay aligned to their own size, as the contract says: their count times size
  // is.
  T* data() { return reinterpret_cast<T*>(data_); }
  T& operator[](int64_t i) { return data()[i]; }
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(count_); }

 private:
  size_t count_;
  size_t bytes_ = 0;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

/// The value of an E4M3 code, by the definition of the format.
inline double e4m3_value(uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 7 - 3);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

/// The value of an E2M1 code.
inline double e2m1_value(int code) {
  const int exponent = (code >> 1) & 3;
  const int mantissa = code & 1;
  const double magnitude = exponent == 0 ? 0.5 * mantissa : std::ldexp(2 + mantissa, exponent - 2);
  return (code & 8) != 0 ? -magnitude : magnitude;
}

/// A weight matrix with storage of its own, its bytes right before (or after) an unreadable page.
struct TestWeight {
  TestWeight(WeightFormat format, int64_t rows, int64_t cols, uint32_t seed, Edge edge = Edge::end);

  /// What Weight defines, in float64 before the one rounding to float32.
  [[nodiscard]] double value(int64_t row, int64_t col) const;

  Weight weight;
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<uint8_t> block_scales;
  std::vector<std::shared_ptr<void>> memory;
  void place(Edge edge, int64_t offset = 0);
};

inline TestWeight::TestWeight(WeightFormat format, int64_t rows, int64_t cols, uint32_t seed, Edge edge) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  weight.format = format;
  weight.rows = rows;
  weight.cols = cols;
  const auto put = [&](const auto& item) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&item);
    codes.insert(codes.end(), bytes, bytes + sizeof item);
  };
  switch (format) {
    case WeightFormat::f32:
      for (int64_t i = 0; i < rows * cols; ++i) put(normal(random));
      break;
    case WeightFormat::bf16:
      for (int64_t i = 0; i < rows * cols; ++i) {
        put(static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(random)) >> 16));
      }
      break;
    case WeightFormat::fp8_block:
      for (int64_t i = 0; i < rows * cols; ++i) {
        auto code = static_cast<uint8_t>(random());
        if ((code & 0x7F) == 0x7F) code ^= 1;  // NaN has tests of its own
        put(code);
      }
      scales.resize(static_cast<size_t>((rows + 127) / 128 * ((cols + 127) / 128)));
      for (float& scale : scales) scale = 0.001F * (1.0F + std::abs(normal(random)));
      break;
    case WeightFormat::nvfp4:
      for (int64_t i = 0; i < rows * cols / 2; ++i) put(static_cast<uint8_t>(random()));
      block_scales.resize(static_cast<size_t>(rows * cols / 16));
      for (uint8_t& scale : block_scales) scale = static_cast<uint8_t>(random() % 0x7F);
      weight.global_divides = seed % 2 == 1;
      weight.global_scale = weight.global_divides ? 1234.5F : 0.0123F;
      break;
  }
  place(edge);
}

/// Copies the parts to fresh memory, the codes `offset` bytes away from the page.
inline void TestWeight::place(Edge edge, int64_t offset) {
  const auto keep = [&](const auto& values, int64_t shift) -> const void* {
    using T = typename std::decay_t<decltype(values)>::value_type;
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    auto buffer = std::make_shared<Guarded<uint8_t>>(bytes + shift, edge);
    uint8_t* at = buffer->data() + (edge == Edge::end ? 0 : shift);
    if (bytes > 0) std::memcpy(at, values.data(), static_cast<size_t>(bytes));
    memory.push_back(buffer);
    return at;
  };
  weight.data = keep(codes, offset);
  weight.scale = scales.empty() ? nullptr : keep(scales, 0);
  weight.block_scale = block_scales.empty() ? nullptr : static_cast<const uint8_t*>(keep(block_scales, 0));
}

inline double TestWeight::value(int64_t row, int64_t col) const {
  const auto index = static_cast<size_t>(row * weight.cols + col);
  switch (weight.format) {
    case WeightFormat::f32: {
      float result;
      std::memcpy(&result, &codes[index * 4], 4);
      return result;
    }
    case WeightFormat::bf16: {
      const uint32_t bits = (uint32_t{codes[index * 2 + 1]} << 24) | (uint32_t{codes[index * 2]} << 16);
      return std::bit_cast<float>(bits);
    }
    case WeightFormat::fp8_block: {
      const auto scale = static_cast<size_t>(row / 128 * ((weight.cols + 127) / 128) + col / 128);
      return e4m3_value(codes[index]) * static_cast<double>(scales[scale]);
    }
    case WeightFormat::nvfp4: {
      const int code = col % 2 == 0 ? codes[index / 2] & 15 : codes[index / 2] >> 4;
      const auto block = static_cast<float>(e4m3_value(block_scales[index / 16]));
      const float scale = weight.global_divides ? block / weight.global_scale : block * weight.global_scale;
      return e2m1_value(code) * static_cast<double>(scale);
    }
  }
  return 0;
}

/// Normally distributed numbers, on the bfloat16 grid if `bf16`.
inline std::vector<float> normal_values(int64_t count, uint32_t seed, bool bf16 = false) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = normal(random);
    if (bf16) value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFF0000U);
  }
  return values;
}

/// How far a sum of K products may lie from the exact one, as a multiple of the sum of their sizes. A lane
/// adds K / lanes of them (with block scales K / 128 blocks of 128 / lanes), each with one rounding of 2^-24;
/// four or five more come from adding up the lanes, one from the scale and one from the weight's own
/// rounding.
inline double sum_error(Isa isa, int64_t K) {
  const int64_t lanes = isa >= Isa::avx512 ? 16 : 8;
  const int64_t roundings = (K + lanes - 1) / lanes + (K + 127) / 128 + 7;
  return static_cast<double>(roundings) * 0x1p-24;
}

/// Equal bits, except that a NaN equals any NaN.
inline bool same(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

inline std::string format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::f32:
      return "f32";
    case WeightFormat::bf16:
      return "bf16";
    case WeightFormat::fp8_block:
      return "fp8";
    case WeightFormat::nvfp4:
      return "nvfp4";
  }
  return "?";
}

/// A test of every instruction set; one that the machine lacks is skipped with that reason.
class IsaTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > best_isa()) {
      GTEST_SKIP() << "skipped: this machine has no " << isa_name(GetParam()) << ", only up to "
                   << isa_name(best_isa());
    }
  }
  [[nodiscard]] const Kernels& table() const { return kernels(GetParam()); }

  /// Kernels::matmul with scratch of its own, between unreadable pages and poisoned.
  void matmul(const float* x, int64_t ldx, int64_t M, const Weight& W, int64_t n0, int64_t n1, float* out,
              int64_t ldo, bool x_is_bf16) const {
    Guarded<float> scratch(table().matmul_scratch_floats(W.cols));
    table().matmul(x, ldx, M, W, n0, n1, out, ldo, x_is_bf16, scratch.data());
  }
};

inline auto all_isas() {
  return testing::Values(Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16);
}
inline std::string isa_test_name(const testing::TestParamInfo<Isa>& info) {
  return std::string(isa_name(info.param));
}

}  // namespace glint::ops::cpu
