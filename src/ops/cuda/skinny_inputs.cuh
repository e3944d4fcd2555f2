// How the rows of x reach a product with few of them: FP8's through the ring of weight_stream.cuh, bfloat16's
// straight from memory.
#pragma once

#include <type_traits>

#include "ops/cuda/weight_stream.cuh"

namespace glint::ops::cuda {

/// Row of x that is row `r` of a tile.
__device__ __forceinline__ int64_t source_row(const Matmul& p, const RowTile& tile, unsigned r) {
  return p.x_rows == nullptr ? tile.first + r : p.x_rows[tile.first + r];
}

/// An item has 128 bytes of each row for each of its kSpan blocks of columns, then for each of them the
/// scales of the rows and the weights'.
template <int kCols, int kSpan>
class Fp8Inputs {
 public:
  static constexpr bool kInRing = true;
  static constexpr bool kAhead = false;
  __host__ __device__ static int bytes(int rows) { return rows * kRowBytes + kSpan * kScaleBytes; }

  __device__ Fp8Inputs(const Matmul& p, const Weight& w, const RowTile& tile, int64_t /*z*/, int64_t w_row0,
                       unsigned lane, int first, int step)
      : rows_(static_cast<unsigned>(tile.count)), step_(step), byte_(first * kRowBytes) {
    const int64_t blocks = (w.cols + kBlockCols - 1) / kBlockCols;
    limit_ = static_cast<int>(w.cols) - static_cast<int>(lane % kUnits) * 16;
    left_ = static_cast<int>(blocks) - first * kSpan;
    place_ = kept(unit(lane / kUnits, lane % kUnits));
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int64_t row = source_row(p, tile, min(i * kRowsPerCopy + lane / kUnits, rows_ - 1));
      from_[i] = kept(static_cast<const std::byte*>(p.x) + row * p.x_stride + lane % kUnits * 16);
    }
    weight_scales_ = static_cast<const float*>(w.scale) + w_row0 / kScaleBlock * blocks + first * kSpan;
    scales_ = kOneCopy && lane == kWeightScale
                  ? weight_scales_
                  : p.x_scales + source_row(p, tile, min(lane, rows_ - 1)) * p.x_scale_stride + first * kSpan;
#pragma unroll
    for (int j = 0; j < kCols; ++j) read_[j] = kept(unit(min(j * 8 + lane / 4, rows_ - 1), lane % 4));
  }

  __device__ __forceinline__ void start_next(uint32_t place, unsigned lane) {
    const bool inside = byte_ < limit_;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (i * kRowsPerCopy + lane / kUnits < rows_)
        copy_async_near(place + place_ + i * 512, from_[i] + byte_, inside);
    }
    const uint32_t scales = place + rows_ * kRowBytes;
#pragma unroll
    for (int s = 0; s < kSpan; ++s) {
      if (s > 0 && s >= left_) break;
      if (lane < rows_ || (kOneCopy && lane == kWeightScale))
        copy_async_word(scales + s * kScaleBytes + lane * 4, scales_ + s);
      if (!kOneCopy && lane == 0)
        copy_async_word(scales + s * kScaleBytes + kWeightScale * 4, weight_scales_ + s);
    }
    byte_ += step_ * kRowBytes;
    left_ -= step_ * kSpan;
    scales_ += step_ * kSpan;
    weight_scales_ += step_ * kSpan;
  }

  /// What a lane multiplies of 64 columns.
  __device__ __forceinline__ void read(const std::byte* place, int chunk, uint4 (&x)[kCols][1]) const {
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
      x[j][0] = *reinterpret_cast<const uint4*>(place + (chunk % 2 == 0 ? read_[j] : read_[j] ^ 64U) +
                                                chunk / 2 * 128);
    }
  }
  /// Of x's row number `lane`, times the weights'.
  __device__ __forceinline__ float scale(const std::byte* place, int block_of_item, unsigned lane) const {
    const auto* scales =
        reinterpret_cast<const float*>(place + rows_ * kRowBytes + block_of_item * kScaleBytes);
    return __fmul_rn(scales[lane], scales[kWeightScale]);
  }

 private:
  static constexpr int kRowBytes = kSpan * kBlockCols;
  static constexpr unsigned kUnits = kRowBytes / 16;
  static constexpr unsigned kRowsPerCopy = kLanes / kUnits;
  static constexpr int kCopies = kCols * 8 / kRowsPerCopy;
  static constexpr bool kOneCopy = kCols < 4;  // a lane for each row's scale and one for the weights'
  static constexpr unsigned kWeightScale = kOneCopy ? 31 : 32;
  static constexpr int kScaleBytes = kOneCopy ? 128 : 256;
  __device__ static constexpr unsigned unit(unsigned row, unsigned u) {
    return row * kRowBytes + (u ^ (row & 1U) << 2) * 16;
  }

  const std::byte* from_[kCopies];
  const float* scales_;
  const float* weight_scales_;
  unsigned read_[kCols];
  unsigned place_, rows_;
  int step_, byte_, limit_, left_;
};

/// A lane reads what it multiplies.
template <class Form, int kCols>
class DirectInputs {
 public:
  static constexpr bool kInRing = false;
  /// Whether a block of columns is read ahead: as far as registers go.
  static constexpr bool kAhead = sizeof(uint4) * Form::kChunks * kCols * Form::kInputVectors <= 64;
  using Block = uint4[Form::kChunks][kCols][Form::kInputVectors];

  __host__ __device__ static int bytes(int /*rows*/) { return 0; }

  __device__ DirectInputs(const Matmul& p, const Weight& w, const RowTile& tile, int64_t z,
                          int64_t /*w_row0*/, unsigned lane, int /*first*/, int /*step*/)
      : row_bytes_(static_cast<int>(input_row_bytes<Form>(w.cols))),
        first_(static_cast<int>(lane % 4 * 16 * Form::kInputVectors)) {
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
      const unsigned r = j * 8 + lane / 4;
      row_[j] = r >= tile.count ? nullptr
                                : static_cast<const std::byte*>(p.x) +
                                      (source_row(p, tile, r) * p.x_stride + z * p.x_batch) * 2;
    }
  }

  __device__ __forceinline__ void load(int block, Block& x) const {
#pragma unroll
    for (int c = 0; c < Form::kChunks; ++c) {
#pragma unroll
      for (int v = 0; v < Form::kInputVectors; ++v) {
        const int at = block * Form::kInputBytes + first_ + c * kChunkBytes * Form::kInputVectors + v * 16;
        const bool inside = at < row_bytes_;
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          x[c][j][v] = inside && row_[j] != nullptr ? *reinterpret_cast<const uint4*>(row_[j] + at) : uint4{};
        }
      }
    }
  }

 private:
  const std::byte* row_[kCols];  // null: no such row
  int row_bytes_, first_;
};

}  // namespace glint::ops::cuda
