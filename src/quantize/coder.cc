#include "quantize/coder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/integers.h"
#include "base/numeric.h"
#include "tensor/encode.h"

namespace glint::quantize {

namespace {

/// Blocks that stay in the second-level cache from one pass to the next.
constexpr int64_t kCachedBlocks = 8192;

[[noreturn]] void fail_not_finite(std::span<const uint16_t> weights, int64_t first_row, int64_t cols,
                                  const std::string& tensor) {
  for (size_t i = 0; i < weights.size(); ++i) {
    if ((weights[i] & 0x7FFFU) < kBf16Infinity) continue;
    const auto place = static_cast<int64_t>(i);
    fail(ErrorKind::bad_input, tensor, ": ", (weights[i] & 0x7FFFU) == kBf16Infinity ? "infinity" : "NaN",
         " at row ", first_row + place / cols, ", column ", place % cols,
         " (counted from 0), expected finite weights: nothing was converted; --exclude it or repair the "
         "source");
  }
  GLINT_CHECK(false);
  std::abort();
}

int64_t count_subnormal(std::span<const uint8_t> scales) {
  return std::count_if(scales.begin(), scales.end(), [](uint8_t scale) { return scale < 8; });
}

}  // namespace

void CodingStats::add(const CodingStats& other) {
  power += other.power;
  error += other.error;
  error_of_max += other.error_of_max;
  amax = std::max(amax, other.amax);
  subnormal_scales += other.subnormal_scales;
  coded = coded || other.coded;
}

double CodingStats::relative_rmse() const {
  return power > 0 ? std::sqrt(error / power) : 0.0;
}

float global_scale_of(float amax, GlobalScale mode) {
  if (mode == GlobalScale::exact) return nvfp4_global_scale(amax);
  constexpr float kReciprocal = 1.0F / 2688.0F;
  const float scale = amax * kReciprocal;
  return scale == 0 ? 1.0F : scale;
}

void decode_fp8(const std::byte* codes, const float* scales, int64_t rows, int64_t cols, uint16_t* out) {
  std::array<float, 256> values{};
  for (size_t code = 0; code < values.size(); ++code)
    values[code] = e4m3_to_float(static_cast<uint8_t>(code));
  const int64_t scale_cols = ceil_div(cols, kFp8BlockSize);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t block = 0; block < scale_cols; ++block) {
      const float scale = scales[row / kFp8BlockSize * scale_cols + block];
      const int64_t first = block * kFp8BlockSize;
      const std::byte* const in = codes + row * cols + first;
      uint16_t* const to = out + row * cols + first;
      for (int64_t i = 0; i < std::min(kFp8BlockSize, cols - first); ++i) {
        to[i] = float_to_bf16(values[std::to_integer<uint8_t>(in[i])] * scale);
      }
    }
  }
}

void decode_nvfp4(const std::byte* packed, const std::byte* scales, float global_scale, int64_t rows,
                  int64_t cols, uint16_t* out) {
  for (int64_t block = 0; block < rows * cols / kBlock; ++block) {
    const float step = e4m3_to_float(std::to_integer<uint8_t>(scales[block])) * global_scale;
    for (int64_t i = 0; i < kBlock; ++i) {
      const auto pair = std::to_integer<uint8_t>(packed[(block * kBlock + i) / 2]);
      out[block * kBlock + i] = float_to_bf16(kE2m1[(pair >> (4 * (i % 2))) & 15] * step);
    }
  }
}

uint16_t find_amax(const Codec& codec, std::span<const uint16_t> weights, int64_t cols,
                   const std::string& tensor, std::vector<uint16_t>& amax) {
  const auto blocks = static_cast<int64_t>(weights.size()) / kBlock;
  amax.resize(static_cast<size_t>(blocks));
  const uint16_t all = codec.block_amax(weights.data(), blocks, amax.data());
  if (all >= kBf16Infinity) fail_not_finite(weights, 0, cols, tensor);
  return all;
}

void check_finite(std::span<const uint16_t> weights, int64_t row, int64_t cols, const std::string& tensor) {
  uint16_t amax = 0;
  for (const uint16_t bits : weights) amax = std::max(amax, static_cast<uint16_t>(bits & 0x7FFFU));
  if (amax >= kBf16Infinity) fail_not_finite(weights, row, cols, tensor);
}

CodingStats code_nvfp4(const Codec& codec, std::span<const uint16_t> weights, std::span<const uint16_t> amax,
                       float global_scale, ScaleSearch search, uint8_t* packed, uint8_t* scales) {
  const Nvfp4Tables tables = make_nvfp4_tables(global_scale);
  const auto blocks = static_cast<int64_t>(amax.size());
  GLINT_CHECK(static_cast<int64_t>(weights.size()) == blocks * kBlock);
  CodingStats stats;
  stats.coded = true;
  ErrorSums sums;
  ErrorSums sums_of_max;
  for (int64_t first = 0; first < blocks; first += kCachedBlocks) {
    const int64_t count = std::min(kCachedBlocks, blocks - first);
    const uint16_t* const in = weights.data() + first * kBlock;
    uint8_t* const out = packed + first * kBlock / 2;
    codec.max_scales(amax.data() + first, count, tables, scales + first);
    if (search == ScaleSearch::mse) {
      sums_of_max.add(codec.encode_with_error(in, count, tables, scales + first, out));
      codec.search_scales(in, count, tables, scales + first);
    }
    sums.add(codec.encode_with_error(in, count, tables, scales + first, out));
  }
  stats.power = sums.power;
  stats.error = sums.error;
  stats.error_of_max = search == ScaleSearch::mse ? sums_of_max.error : sums.error;
  stats.subnormal_scales = count_subnormal({scales, static_cast<size_t>(blocks)});
  stats.amax = bf16_to_float(amax.empty() ? uint16_t{0} : *std::max_element(amax.begin(), amax.end()));
  return stats;
}

CodingStats code_fp8(std::span<const uint16_t> weights, int64_t row, int64_t cols, const std::string& tensor,
                     uint8_t* codes, float* scales) {
  const int64_t rows = static_cast<int64_t>(weights.size()) / cols;
  const int64_t scale_cols = ceil_div(cols, kFp8BlockSize);
  std::vector<float> band(static_cast<size_t>(std::min(rows, kFp8BlockSize) * cols));
  CodingStats stats;
  stats.coded = true;
  for (int64_t first = 0; first < rows; first += kFp8BlockSize) {
    const int64_t now = std::min(kFp8BlockSize, rows - first);
    const auto part = weights.subspan(static_cast<size_t>(first * cols), static_cast<size_t>(now * cols));
    uint16_t amax = 0;
    for (size_t i = 0; i < part.size(); ++i) {
      amax = std::max(amax, static_cast<uint16_t>(part[i] & 0x7FFFU));
      band[i] = bf16_to_float(part[i]);
    }
    if (amax >= kBf16Infinity) fail_not_finite(part, row + first, cols, tensor);
    float* const band_scales = scales + first / kFp8BlockSize * scale_cols;
    uint8_t* const out = codes + first * cols;
    encode_fp8_band(band.data(), now, cols, out, band_scales);
    stats.amax = std::max(stats.amax, bf16_to_float(amax));
    for (int64_t i = 0; i < now * cols; ++i) {
      const double w = band[static_cast<size_t>(i)];
      const double v = e4m3_to_float(out[i]) * band_scales[i % cols / kFp8BlockSize];
      stats.power += w * w;
      stats.error += (w - v) * (w - v);
    }
  }
  stats.error_of_max = stats.error;
  return stats;
}

}  // namespace glint::quantize
