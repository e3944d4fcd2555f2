// How a warp reads the rows of a weight matrix for a product with few rows of x: items of 128 or 256 columns
// by 16, 32 or 64 rows, several of them under way in a ring of the warp's own in shared memory.
#pragma once

#include "ops/cuda/matmul_core.cuh"

namespace glint::ops::cuda {

constexpr unsigned kLanes = 32;

/// `value`, which the compiler shall keep in a register rather than compute again in each step of a loop.
__device__ __forceinline__ unsigned kept(unsigned value) {
  asm volatile("" : "+r"(value));
  return value;
}
template <class T>
__device__ __forceinline__ T* kept(T* value) {
  asm volatile("" : "+l"(value));
  return value;
}

/// An item of a warp: kRows times 16 rows of W by kSpan blocks of 128 columns. In the ring it has its codes,
/// then NVFP4's scales; all sizes are whole rows of banks.
template <class Form, int kRows, int kSpan_>
struct Item {
  static constexpr bool kHasScales = Form::kFormat == WeightFormat::nvfp4;
  static constexpr int kSpan = kSpan_;
  static_assert(!kHasScales || kSpan == 2, "16 bytes of scales a row");
  static constexpr int kTileW = kRows * 16;
  static constexpr int kRowBytes = kSpan * Form::kWeightBytes;
  static constexpr int kUnits = kRowBytes / 16;
  static constexpr int kCodeBytes = kTileW * kRowBytes;
  static constexpr int kCopies = kCodeBytes / 512;  // of a lane, 16 bytes each
  static constexpr int kScaleRowBytes = kSpan * kBlockCols / static_cast<int>(kFp4Group);
  static constexpr int kBytes = kCodeBytes + (kHasScales ? kTileW * kScaleRowBytes : 0);

  /// Where unit `u` of a row stands, so that eight lanes that read at a time (two rows, four units) touch
  /// different banks.
  __device__ static constexpr unsigned place(unsigned row, unsigned u) {
    return row * kRowBytes + (u ^ (row & 1U) << 2) * 16;
  }
};

/// The rows of a tile as a warp's lanes copy them, item by item. Rows beyond the matrix are its last row
/// again (their sums go nowhere); columns beyond it are zeros.
template <class Form, int kRows, int kSpan>
class WeightStream {
  using I = Item<Form, kRows, kSpan>;
  static constexpr unsigned kRowsPerCopy = kLanes / I::kUnits;
  static_assert(kRowsPerCopy % 2 == 0, "a lane's rows have one parity, so their places differ by a constant");

 public:
  /// Items first, first + step, ...
  __device__ WeightStream(const Weight& w, int64_t row0, int rows_inside, unsigned lane, int first, int step)
      : step_(step * I::kRowBytes), byte_(first * I::kRowBytes) {
    const auto row_bytes = static_cast<int>(weight_row_bytes<Form>(w.cols));
    const unsigned row = lane / I::kUnits;
    const auto last = static_cast<unsigned>(rows_inside - 1);
    place_ = kept(I::place(row, lane % I::kUnits));
    limit_ = row_bytes - static_cast<int>(lane % I::kUnits) * 16;
    from_ = static_cast<const std::byte*>(w.data) + row0 * row_bytes + lane % I::kUnits * 16 + byte_;
#pragma unroll
    for (int i = 0; i < I::kCopies; ++i)
      offset_[i] = kept(min(row + i * kRowsPerCopy, last) * static_cast<unsigned>(row_bytes));
    if constexpr (I::kHasScales) {
      groups_ = static_cast<int>(w.cols / kFp4Group);
      whole_ = groups_ % I::kScaleRowBytes == 0 &&
               reinterpret_cast<uintptr_t>(w.block_scale) % I::kScaleRowBytes == 0;
#pragma unroll
      for (int i = 0; i < kScaleCopies; ++i) {
        scales_[i] = w.block_scale + (row0 + min(lane + i * kLanes, last)) * groups_ +
                     byte_ / (I::kRowBytes / I::kScaleRowBytes);
      }
    }
  }

  /// Starts the copies of the next item into `slot`. They are complete for a lane's reads once every lane has
  /// waited for its own.
  __device__ __forceinline__ void start_next(uint32_t slot, unsigned lane) {
    const bool inside = byte_ < limit_;
#pragma unroll
    for (int i = 0; i < I::kCopies; ++i) {
      copy_async(slot + place_ + i * static_cast<int>(kRowsPerCopy) * I::kRowBytes, from_ + offset_[i],
                 inside);
    }
    if constexpr (I::kHasScales) {
#pragma unroll
      for (int i = 0; i < kScaleCopies; ++i) {
        const unsigned row = lane + i * kLanes;
        if (I::kTileW % kLanes == 0 || row < I::kTileW)
          copy_scales(scales_[i], slot + I::kCodeBytes + row * I::kScaleRowBytes);
        scales_[i] += step_ / (I::kRowBytes / I::kScaleRowBytes);
      }
    }
    from_ += step_;
    byte_ += step_;
  }

 private:
  static constexpr int kScaleCopies = I::kHasScales ? (I::kTileW + 31) / 32 : 0;

  __device__ __forceinline__ void copy_scales(const uint8_t* from, uint32_t place) const {
    if (whole_) {
      copy_async(place, from, true);
      return;
    }
    const int left = groups_ - byte_ / (I::kRowBytes / I::kScaleRowBytes);
#pragma unroll 1
    for (int i = 0; i < I::kScaleRowBytes; ++i) {
      const uint16_t code = i < left ? from[i] : 0;
      asm volatile("st.shared.u8 [%0], %1;" ::"r"(place + i), "h"(code) : "memory");
    }
  }

  const std::byte* from_;
  const uint8_t* scales_[kScaleCopies + 1];  // the last is nothing: an array has an element
  unsigned offset_[I::kCopies];
  unsigned place_;
  int step_, byte_, limit_, groups_;
  bool whole_;
};

/// What a lane multiplies of the items in shared memory.
template <class Form, int kRows, int kSpan>
class WeightReader {
  using I = Item<Form, kRows, kSpan>;

 public:
  explicit __device__ WeightReader(unsigned lane)
      : codes_(kept(I::place(lane / 4, lane % 4))),
        scales_(kept(I::kCodeBytes + lane / 4 * I::kScaleRowBytes + lane % 4 * 2)) {}

  __device__ __forceinline__ void read(const std::byte* slot, int chunk, uint4 (&codes)[kRows][2],
                                       uint32_t (&scales)[kRows][2][2]) const {
    // Odd chunks stand where even ones do in rows of the other parity.
    const std::byte* const from = slot + (chunk % 2 == 0 ? codes_ : codes_ ^ 64U) + chunk / 2 * 128;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = i * 16 + half * 8;
        codes[i][half] = *reinterpret_cast<const uint4*>(from + row * I::kRowBytes);
        if constexpr (I::kHasScales) {
          widen_scales(
              *reinterpret_cast<const uint16_t*>(slot + scales_ + row * I::kScaleRowBytes + chunk * 8),
              scales[i][half]);
        }
      }
    }
  }

 private:
  unsigned codes_, scales_;
};

}  // namespace glint::ops::cuda
