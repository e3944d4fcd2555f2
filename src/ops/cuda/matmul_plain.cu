// The product for float32 and for shapes that the tensor cores do not take: any format, decoded value by
// value.
#include <type_traits>

#include "ops/cuda/check.h"
#include "ops/cuda/device_math.cuh"
#include "ops/cuda/matmul.h"

namespace glint::ops::cuda {

namespace {

constexpr int kTile = 64;   // rows of y and of W of a block
constexpr int kDepth = 16;  // columns of x and W in shared memory
constexpr int kSide = 16;   // threads each way
constexpr int kEach = kTile / kSide;
constexpr int kThreads = kSide * kSide;

struct Tile {
  int64_t first, count, expert;
};

__device__ Tile tile_of(const Matmul& p, int64_t index) {
  if (p.tiles.used == nullptr)
    return {index * kTile, min(static_cast<int64_t>(kTile), p.rows - index * kTile), 0};
  const int64_t parts = (p.tiles.tile_rows + kTile - 1) / kTile;
  const int64_t tile = index / parts;
  if (tile >= *p.tiles.used) return {0, 0, 0};
  const int64_t skip = index % parts * kTile;
  return {p.tiles.first[tile] + skip, min(static_cast<int64_t>(kTile), p.tiles.count[tile] - skip),
          p.tiles.expert[tile]};
}

template <class X>
__device__ float input_value(const Matmul& p, int64_t row, int64_t col) {
  const int64_t from = p.x_rows == nullptr ? row : p.x_rows[row];
  if constexpr (sizeof(X) == 1) {
    const float scale = p.x_scales[from * p.x_scale_stride + col / kScaleBlock];
    return e4m3_value(static_cast<const uint8_t*>(p.x)[from * p.x_stride + col]) * scale;
  } else {
    return load_value(static_cast<const X*>(p.x) + from * p.x_stride + col);
  }
}

template <class X, class Y>
__global__ void __launch_bounds__(kThreads) plain_kernel(Matmul p) {
  __shared__ float xs[kDepth][kTile + 1];
  __shared__ float ws[kDepth][kTile + 1];
  const int64_t z = blockIdx.z;
  const Tile tile = tile_of(p, blockIdx.x);
  if (tile.count <= 0) return;
  const Weight w = p.table == nullptr ? p.weight : p.table[tile.expert * p.table_stride + z];
  const int64_t out_cols = p.out_cols == 0 ? w.rows : p.out_cols;
  const int64_t col0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t w_row0 = col0 + z * p.w_batch_rows;
  const int tx = static_cast<int>(threadIdx.x) % kSide;
  const int ty = static_cast<int>(threadIdx.x) / kSide;
  // float32 is the reference: its sums are float64, rounded once at the end.
  using Sum = std::conditional_t<sizeof(X) == 4, double, float>;
  Sum sums[kEach][kEach] = {};
  for (int64_t k0 = 0; k0 < w.cols; k0 += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
      const int r = i / kDepth;
      const int k = i % kDepth;
      const bool inside = k0 + k < w.cols;
      xs[k][r] = inside && r < tile.count ? input_value<X>(p, tile.first + r, z * p.x_batch + k0 + k) : 0.0F;
      ws[k][r] = inside && col0 + r < out_cols ? weight_value(w, w_row0 + r, k0 + k) : 0.0F;
    }
    __syncthreads();
    const int depth = static_cast<int>(min(static_cast<int64_t>(kDepth), w.cols - k0));
    for (int k = 0; k < depth; ++k) {
      for (int i = 0; i < kEach; ++i) {
        for (int j = 0; j < kEach; ++j) {
          sums[i][j] = fma(static_cast<Sum>(xs[k][ty + i * kSide]), static_cast<Sum>(ws[k][tx + j * kSide]),
                           sums[i][j]);
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i) {
    const int r = ty + i * kSide;
    for (int j = 0; j < kEach; ++j) {
      const int64_t col = col0 + tx + j * kSide;
      if (r >= tile.count || col >= out_cols) continue;
      static_cast<Y*>(p.y)[(tile.first + r) * p.y_stride + z * p.y_batch + col] =
          as_element<Y>(static_cast<float>(sums[i][j]));
    }
  }
}

template <class X, class Y>
void launch(const Matmul& p, cudaStream_t stream) {
  const int64_t out_cols = p.out_cols == 0 ? p.weight.rows : p.out_cols;
  const int64_t tiles = p.tiles.used == nullptr
                            ? (p.rows + kTile - 1) / kTile
                            : p.tiles.tiles_max * ((p.tiles.tile_rows + kTile - 1) / kTile);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>((out_cols + kTile - 1) / kTile),
                  static_cast<unsigned>(p.batch));
  plain_kernel<X, Y><<<grid, kThreads, 0, stream>>>(p);
  check(cudaGetLastError(), "launching multiply_plain");
}

}  // namespace

void multiply_plain(const Matmul& p, cudaStream_t stream) {
  if (p.rows == 0) return;
  switch (p.input) {
    case InputFormat::float32:
      launch<float, float>(p, stream);
      break;
    case InputFormat::bfloat16:
      p.y_is_float ? launch<__nv_bfloat16, float>(p, stream)
                   : launch<__nv_bfloat16, __nv_bfloat16>(p, stream);
      break;
    case InputFormat::fp8:
      p.y_is_float ? launch<uint8_t, float>(p, stream) : launch<uint8_t, __nv_bfloat16>(p, stream);
      break;
  }
}

}  // namespace glint::ops::cuda
