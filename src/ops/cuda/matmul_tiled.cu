// Many rows of x: tiles of W and x pass through shared memory in a ring, filled by asynchronous copies.
#include "ops/cuda/check.h"
#include "ops/cuda/matmul_core.cuh"

namespace glint::ops::cuda {

namespace {

/// A block makes kW rows of W times kX rows of x with kWarpsW x kWarpsX warps.
template <class Form, int kW_, int kX_, int kWarpsW_, int kWarpsX_, int kStages_>
struct Shape {
  using F = Form;
  static constexpr int kW = kW_, kX = kX_, kWarpsW = kWarpsW_, kWarpsX = kWarpsX_, kStages = kStages_;
  static constexpr int kThreads = kWarpsW * kWarpsX * 32;
  static constexpr int kRows = kW / kWarpsW / 16;  // fragments of a warp
  static constexpr int kCols = kX / kWarpsX / 8;
  static constexpr int kWeightStage = kW * Form::kWeightBytes;
  static constexpr int kInputStage = kX * Form::kInputBytes;
  static constexpr int kStageBytes = kWeightStage + kInputStage;
  static constexpr int kOutputStride = kW + 4;  // floats
  static constexpr int kOutputBytes = kX * kOutputStride * 4;
  static constexpr int kSharedBytes =
      kStages * kStageBytes > kOutputBytes ? kStages* kStageBytes : kOutputBytes;
};

/// Where unit `u` (16 bytes) of a row stands, so that the eight lanes that read at a time (two rows, four
/// units) touch different banks.
template <int kRowBytes>
__device__ __forceinline__ int swizzled(int row, int u) {
  if constexpr (kRowBytes == 64) {
    return u;
  } else {
    return u ^ ((row & 1) << 2 | (row >> 1 & 3));
  }
}
/// The same for NVFP4's x, of which a lane reads four neighbouring units one after another.
__device__ __forceinline__ int swizzled_wide(int row, int u) {
  return (u & 8) | ((u & 7) ^ (u >> 3 & 1) ^ (row & 1) << 1);
}
template <class Form>
__device__ __forceinline__ int input_unit(int row, int u) {
  if constexpr (Form::kInputVectors == 4) {
    return swizzled_wide(row, u);
  } else {
    return swizzled<Form::kInputBytes>(row, u);
  }
}

template <class S>
__device__ __forceinline__ void fill_stage(const Matmul& p, const Weight& w, int64_t w_row0, int64_t w_count,
                                           const RowTile& tile, const int32_t* from, int64_t z, int64_t block,
                                           uint32_t stage) {
  using F = typename S::F;
  constexpr int kElement = F::kFormat == WeightFormat::fp8_block ? 1 : 2;
  const int64_t w_bytes = weight_row_bytes<F>(w.cols);
  const int64_t x_bytes = input_row_bytes<F>(w.cols);
  const auto* weights = static_cast<const std::byte*>(w.data);
  const auto* inputs = static_cast<const std::byte*>(p.x) + z * p.x_batch * kElement;
  constexpr int kWeightUnits = F::kWeightBytes / 16;
  for (int i = static_cast<int>(threadIdx.x); i < S::kW * kWeightUnits; i += S::kThreads) {
    const int row = i / kWeightUnits;
    const int u = i % kWeightUnits;
    const int64_t byte = block * F::kWeightBytes + u * 16;
    const bool valid = row < w_count && byte < w_bytes;
    copy_async(stage + row * F::kWeightBytes + swizzled<F::kWeightBytes>(row, u) * 16,
               valid ? weights + (w_row0 + row) * w_bytes + byte : weights, valid);
  }
  constexpr int kInputUnits = F::kInputBytes / 16;
  for (int i = static_cast<int>(threadIdx.x); i < S::kX * kInputUnits; i += S::kThreads) {
    const int row = i / kInputUnits;
    const int u = i % kInputUnits;
    const int64_t byte = block * F::kInputBytes + u * 16;
    const bool valid = row < tile.count && byte < x_bytes;
    copy_async(stage + S::kWeightStage + row * F::kInputBytes + input_unit<F>(row, u) * 16,
               valid ? inputs + from[row] * p.x_stride * kElement + byte : inputs, valid);
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads) tiled_kernel(Matmul p) {
  using F = typename S::F;
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ int32_t from[S::kX];
  const RowTile tile = row_tile<S::kX>(p, blockIdx.y);
  if (tile.count <= 0) return;
  const int64_t z = blockIdx.z;
  const Weight w = p.table == nullptr ? p.weight : p.table[tile.expert * p.table_stride + z];
  const int64_t out_cols = p.out_cols == 0 ? w.rows : p.out_cols;
  const int64_t col0 = static_cast<int64_t>(blockIdx.x) * S::kW;
  const int64_t w_row0 = col0 + z * p.w_batch_rows;
  const int64_t w_count = min(static_cast<int64_t>(S::kW), out_cols - col0);
  const int64_t blocks = (w.cols + kBlockCols - 1) / kBlockCols;
  for (int i = static_cast<int>(threadIdx.x); i < S::kX; i += S::kThreads) {
    const int64_t row = tile.first + (i < tile.count ? i : 0);
    from[i] = p.x_rows == nullptr ? static_cast<int32_t>(row) : p.x_rows[row];
  }
  __syncthreads();

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int w_warp = warp % S::kWarpsW * S::kRows * 16;
  const int x_warp = warp / S::kWarpsW * S::kCols * 8;
  const auto shared_address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));

  float totals[S::kRows][S::kCols][4] = {};
#pragma unroll
  for (int s = 0; s < S::kStages - 1; ++s) {
    if (s < blocks)
      fill_stage<S>(p, w, w_row0, w_count, tile, from, z, s, shared_address + s * S::kStageBytes);
    commit_copies();
  }
  for (int64_t block = 0; block < blocks; ++block) {
    wait_for_copies<S::kStages - 2>();
    __syncthreads();
    const int64_t ahead = block + S::kStages - 1;
    if (ahead < blocks) {
      fill_stage<S>(p, w, w_row0, w_count, tile, from, z, ahead,
                    shared_address + static_cast<uint32_t>(ahead % S::kStages) * S::kStageBytes);
    }
    commit_copies();
    const std::byte* stage = shared + block % S::kStages * S::kStageBytes;
    float sums[S::kRows][S::kCols][4] = {};
#pragma unroll
    for (int c = 0; c < F::kChunks; ++c) {
      uint4 weights[S::kRows][2];
      uint32_t scales[S::kRows][2][2];
      uint4 inputs[S::kCols][F::kInputVectors];
#pragma unroll
      for (int i = 0; i < S::kRows; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = w_warp + i * 16 + half * 8 + g;
          weights[i][half] = *reinterpret_cast<const uint4*>(stage + row * F::kWeightBytes +
                                                             swizzled<F::kWeightBytes>(row, c * 4 + t) * 16);
          if constexpr (F::kFormat == WeightFormat::nvfp4) {
            const int64_t byte = block * F::kWeightBytes + t * 16;
            group_scales(w, w_row0 + row, byte, row < w_count && byte < weight_row_bytes<F>(w.cols),
                         scales[i][half]);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < S::kCols; ++j) {
        const int row = x_warp + j * 8 + g;
#pragma unroll
        for (int v = 0; v < F::kInputVectors; ++v) {
          const int u = (c * 4 + t) * F::kInputVectors + v;
          inputs[j][v] = *reinterpret_cast<const uint4*>(stage + S::kWeightStage + row * F::kInputBytes +
                                                         input_unit<F>(row, u) * 16);
        }
      }
      multiply_chunk<F, S::kRows, S::kCols>(sums, weights, scales, inputs);
    }
    if constexpr (F::kFormat == WeightFormat::fp8_block) {
      const float w_scale =
          static_cast<const float*>(w.scale)[(w_row0 + w_warp) / kScaleBlock * blocks + block];
#pragma unroll
      for (int j = 0; j < S::kCols; ++j) {
        const int row = x_warp + j * 8 + 2 * t;
        const float first = __fmul_rn(p.x_scales[from[row] * p.x_scale_stride + block], w_scale);
        const float second = __fmul_rn(p.x_scales[from[row + 1] * p.x_scale_stride + block], w_scale);
#pragma unroll
        for (int i = 0; i < S::kRows; ++i) {
          totals[i][j][0] = __fmaf_rn(sums[i][j][0], first, totals[i][j][0]);
          totals[i][j][1] = __fmaf_rn(sums[i][j][1], second, totals[i][j][1]);
          totals[i][j][2] = __fmaf_rn(sums[i][j][2], first, totals[i][j][2]);
          totals[i][j][3] = __fmaf_rn(sums[i][j][3], second, totals[i][j][3]);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < S::kRows; ++i) {
#pragma unroll
        for (int j = 0; j < S::kCols; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) totals[i][j][e] = __fadd_rn(totals[i][j][e], sums[i][j][e]);
        }
      }
    }
  }
  wait_for_copies<0>();
  __syncthreads();
  // Through shared memory, so that whole rows of y are written.
  auto* out = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < S::kRows; ++i) {
#pragma unroll
    for (int j = 0; j < S::kCols; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = x_warp + j * 8 + 2 * t + e % 2;
        const int col = w_warp + i * 16 + e / 2 * 8 + g;
        out[row * S::kOutputStride + col] = finished<F>(w, totals[i][j][e]);
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < S::kX * S::kW; i += S::kThreads) {
    const int row = i / S::kW;
    const int col = i % S::kW;
    if (row >= tile.count || col >= w_count) continue;
    store_output(p, z, tile.first + row, col0 + col, out[row * S::kOutputStride + col]);
  }
}

template <class S>
void allow_shared() {
  check(cudaFuncSetAttribute(tiled_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes),
        "raising a kernel's shared memory");
}

template <class S>
void launch(const Matmul& p, cudaStream_t stream) {
  const int64_t out_cols = p.out_cols == 0 ? p.weight.rows : p.out_cols;
  const dim3 grid(static_cast<unsigned>((out_cols + S::kW - 1) / S::kW),
                  static_cast<unsigned>(row_tile_count<S::kX>(p)), static_cast<unsigned>(p.batch));
  tiled_kernel<S><<<grid, S::kThreads, S::kSharedBytes, stream>>>(p);
  check(cudaGetLastError(), "launching multiply_tiled");
}

template <class Form>
struct Shapes {
  // Two blocks of the small shape fit into a multiprocessor.
  using Large = Shape<Form, 128, 128, 2, 4, Form::kWeightBytes == 256 ? 3 : 4>;
  using Small = Shape<Form, 64, 64, 2, 2, Form::kWeightBytes == 256 ? 3 : 4>;
};

template <class Form>
void launch_form(const Matmul& p, cudaStream_t stream) {
  const int64_t out_cols = p.out_cols == 0 ? p.weight.rows : p.out_cols;
  constexpr int64_t kMultiprocessors = 132;
  const bool grouped = p.tiles.used != nullptr;
  const int64_t large = (out_cols + 127) / 128 * ((p.rows + 127) / 128) * p.batch;
  if ((grouped && p.tiles.tile_rows % 128 == 0) || (!grouped && large >= kMultiprocessors)) {
    launch<typename Shapes<Form>::Large>(p, stream);
  } else {
    launch<typename Shapes<Form>::Small>(p, stream);
  }
}

template <class Form>
void prepare_form() {
  allow_shared<typename Shapes<Form>::Large>();
  allow_shared<typename Shapes<Form>::Small>();
}

}  // namespace

void prepare_tiled() {
  prepare_form<Bf16Form>();
  prepare_form<Fp8Form>();
  prepare_form<Fp4Form>();
}

void multiply_tiled(const Matmul& p, cudaStream_t stream) {
  if (p.rows == 0) return;
  switch (p.weight.format) {
    case WeightFormat::bf16:
      launch_form<Bf16Form>(p, stream);
      break;
    case WeightFormat::fp8_block:
      launch_form<Fp8Form>(p, stream);
      break;
    default:
      launch_form<Fp4Form>(p, stream);
      break;
  }
}

}  // namespace glint::ops::cuda
