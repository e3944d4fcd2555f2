// Few rows of x: every weight byte is read once. The eight warps of a block take turns
// with the blocks of 128 columns of the same 16 weight rows; each keeps several blocks under way in a ring of
// its own in shared memory. The sums of the blocks meet in shared memory and are added in ascending order by
// one thread each (matmul.h: so the order is that of the other kernels).
#include "ops/cuda/check.h"
#include "ops/cuda/matmul_core.cuh"

namespace glint::ops::cuda {

namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;

constexpr int kRingBytes = 6144;  // of a warp: what it has under way

/// Blocks of columns in a warp's ring.
template <class Form, int kRows>
constexpr int kRingBlocks = kRingBytes / (Form::kChunks * kRows * 1024) < 2
                                ? 2
                                : kRingBytes / (Form::kChunks * kRows * 1024);
/// Bytes of a block of columns in it: codes and, of NVFP4, eight scales a row.
constexpr int kScaleRowBytes = kBlockCols / static_cast<int>(kFp4Group);
template <class Form, int kRows>
constexpr int kRingStep = Form::kChunks* kRows * 1024 +
                          (Form::kFormat == WeightFormat::nvfp4 ? kRows * 16 * kScaleRowBytes : 0);
template <class Form, int kRows>
constexpr int kSharedBytes = kWarps* kRingBlocks<Form, kRows>* kRingStep<Form, kRows>;

/// Blocks that a multiprocessor should hold: with three 6,144 rows of FP8 are one wave.
template <class Form, int kRows, int kCols>
constexpr int kBlocksWanted = kCols > 1                                  ? 1
                              : Form::kFormat == WeightFormat::fp8_block ? 3
                                                                         : 2;

/// What a thread holds of a block of columns besides its weights.
template <class Form, int kRows, int kCols>
struct Loaded {
  uint4 x[Form::kChunks][kCols][Form::kInputVectors];
};

/// Where a thread's rows lie.
template <int kRows, int kCols>
struct Lanes {
  int64_t w_row[kRows][2];
  bool w_inside[kRows][2];
  const std::byte* x_row[kCols];  // null: no such row
  int64_t scale_row;              // the first of the tile's rows, and how many of them there are
  int rows_inside;
};

/// The scales of one row in a block of columns to `place` in shared memory, zeros beyond the row's end.
__device__ __forceinline__ void copy_scales(const Weight& w, int64_t row, bool inside, int64_t block,
                                            uint32_t place) {
  const int64_t groups = w.cols / kFp4Group;
  const int64_t first = block * kScaleRowBytes;
  const uint8_t* const from = w.block_scale + row * groups + first;
  if (groups % kScaleRowBytes == 0 && reinterpret_cast<uintptr_t>(w.block_scale) % kScaleRowBytes == 0) {
    const int bytes = inside ? kScaleRowBytes : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(place),
                 "l"(inside ? from : w.block_scale), "r"(bytes));
    return;
  }
  for (int i = 0; i < kScaleRowBytes; ++i) {
    const uint16_t code = inside && first + i < groups ? from[i] : 0;
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(place + i), "h"(code));
  }
}

/// Starts the copies of a block into a slot of the warp's ring: of codes a thread copies those that it will
/// read itself; of NVFP4's scales lane r copies those of row r.
template <class Form, int kRows, int kCols>
__device__ __forceinline__ void start_copies(const Weight& w, const Lanes<kRows, kCols>& lanes, int64_t block,
                                             uint32_t slot) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t place = slot + lane * 16;
  if constexpr (Form::kFormat == WeightFormat::nvfp4) {
    if (lane < kRows * 16)
      copy_scales(w, lanes.scale_row + lane, lane < lanes.rows_inside, block,
                  slot + Form::kChunks * kRows * 1024 + lane * kScaleRowBytes);
  }
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int64_t w_bytes = weight_row_bytes<Form>(w.cols);
  const auto* data = static_cast<const std::byte*>(w.data);
#pragma unroll
  for (int c = 0; c < Form::kChunks; ++c) {
    const int64_t byte = block * Form::kWeightBytes + c * kChunkBytes + t * 16;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool valid = byte < w_bytes && lanes.w_inside[i][half];
        copy_async(place + ((c * kRows + i) * 2 + half) * 512,
                   valid ? data + lanes.w_row[i][half] * w_bytes + byte : data, valid);
      }
    }
  }
}

template <class Form, int kRows, int kCols>
__device__ __forceinline__ void load_block(const Weight& w, const Lanes<kRows, kCols>& lanes, int64_t block,
                                           Loaded<Form, kRows, kCols>& out) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int64_t x_bytes = input_row_bytes<Form>(w.cols);
#pragma unroll
  for (int c = 0; c < Form::kChunks; ++c) {
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
#pragma unroll
      for (int v = 0; v < Form::kInputVectors; ++v) {
        const int64_t at =
            block * Form::kInputBytes + (c * kChunkBytes + t * 16) * Form::kInputVectors + v * 16;
        const bool valid = lanes.x_row[j] != nullptr && at < x_bytes;
        out.x[c][j][v] = valid ? __ldg(reinterpret_cast<const uint4*>(lanes.x_row[j] + at)) : uint4{};
      }
    }
  }
}

// Blocks of columns whose sums fit into shared memory at once; a multiple of the warps.
template <int kRows, int kCols>
constexpr int kRoundBlocks = 16384 / (kRows * 16 * kCols * 8 * 4) < kWarps
                                 ? kWarps
                                 : 16384 / (kRows * 16 * kCols * 8 * 4);

template <class Form, int kRows, int kCols>
__global__ void __launch_bounds__(kThreads, kBlocksWanted<Form, kRows, kCols>) skinny_kernel(Matmul p) {
  constexpr int kTileCols = kCols * 8;   // rows of x
  constexpr int kTileRows = kRows * 16;  // rows of W
  constexpr int kOutputs = kTileCols * kTileRows;
  constexpr int kOwned = (kOutputs + kThreads - 1) / kThreads;
  constexpr int kRound = kRoundBlocks<kRows, kCols>;
  constexpr int kRing = kRingBlocks<Form, kRows>;
  constexpr int kStep = kRingStep<Form, kRows>;
  __shared__ float sums_of[kRound][kTileCols][kTileRows + 1];
  extern __shared__ __align__(16) std::byte ring[];

  const RowTile tile = row_tile<kTileCols>(p, blockIdx.y);
  if (tile.count <= 0) return;
  const int64_t z = blockIdx.z;
  const Weight w = p.table == nullptr ? p.weight : p.table[tile.expert * p.table_stride + z];
  const int64_t out_cols = p.out_cols == 0 ? w.rows : p.out_cols;
  const int64_t col0 = static_cast<int64_t>(blockIdx.x) * kTileRows;
  const int64_t w_row0 = col0 + z * p.w_batch_rows;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  constexpr int kElement = Form::kFormat == WeightFormat::fp8_block ? 1 : 2;

  Lanes<kRows, kCols> lanes;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t row = i * 16 + half * 8 + g;
      lanes.w_row[i][half] = w_row0 + row;
      lanes.w_inside[i][half] = col0 + row < out_cols;
    }
  }
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    const int64_t row = j * 8 + g;
    const int64_t from = row >= tile.count     ? 0
                         : p.x_rows == nullptr ? tile.first + row
                                               : p.x_rows[tile.first + row];
    lanes.x_row[j] = row >= tile.count ? nullptr
                                       : static_cast<const std::byte*>(p.x) +
                                             (from * p.x_stride + z * p.x_batch) * kElement;
  }

  const int64_t blocks = (w.cols + kBlockCols - 1) / kBlockCols;
  lanes.scale_row = w_row0;
  lanes.rows_inside = static_cast<int>(min(static_cast<int64_t>(kTileRows), out_cols - col0));
  const std::byte* const slots = ring + warp * kRing * kStep;
  const auto slots_address = static_cast<uint32_t>(__cvta_generic_to_shared(slots));
#pragma unroll
  for (int i = 0; i < kRing - 1; ++i) {
    if (warp + i * kWarps < blocks) {
      start_copies<Form, kRows, kCols>(w, lanes, warp + i * kWarps, slots_address + i * kStep);
    }
    commit_copies();
  }
  Loaded<Form, kRows, kCols> now;
  if (warp < blocks) load_block<Form, kRows, kCols>(w, lanes, warp, now);
  int slot = 0;
  float owned[kOwned] = {};
  for (int64_t round = 0; round < blocks; round += kRound) {
    const int64_t end = min(blocks, round + kRound);
    if (round > 0) __syncthreads();
    for (int64_t block = round + warp; block < end; block += kWarps) {
      Loaded<Form, kRows, kCols> next;
      if (block + kWarps < blocks) load_block<Form, kRows, kCols>(w, lanes, block + kWarps, next);
      wait_for_copies<kRing - 2>();
      if constexpr (Form::kFormat == WeightFormat::nvfp4) __syncwarp();  // other lanes copied the scales
      const std::byte* const read = slots + slot * kStep;
      uint4 weights[Form::kChunks][kRows][2];
      uint32_t scales[Form::kChunks][kRows][2][2];
#pragma unroll
      for (int c = 0; c < Form::kChunks; ++c) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            weights[c][i][half] = *reinterpret_cast<const uint4*>(read + ((c * kRows + i) * 2 + half) * 512 +
                                                                  static_cast<int>(threadIdx.x) % 32 * 16);
            if constexpr (Form::kFormat == WeightFormat::nvfp4) {
              const std::byte* const of_row =
                  read + Form::kChunks * kRows * 1024 + (i * 16 + half * 8 + g) * kScaleRowBytes;
              widen_scales(reinterpret_cast<const uint16_t*>(of_row)[t], scales[c][i][half]);
            }
          }
        }
      }
      if constexpr (Form::kFormat == WeightFormat::nvfp4)
        __syncwarp();  // all have read before it is filled again
      const int64_t ahead = block + (kRing - 1) * kWarps;
      const int ahead_slot = slot == 0 ? kRing - 1 : slot - 1;  // what the step before has read
      if (ahead < blocks)
        start_copies<Form, kRows, kCols>(w, lanes, ahead, slots_address + ahead_slot * kStep);
      commit_copies();
      slot = slot + 1 == kRing ? 0 : slot + 1;
      float sums[kRows][kCols][4] = {};
#pragma unroll
      for (int c = 0; c < Form::kChunks; ++c) {
        multiply_chunk<Form, kRows, kCols>(sums, weights[c], scales[c], now.x[c]);
      }
      auto& target = sums_of[block - round];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          target[j * 8 + 2 * t][i * 16 + g] = sums[i][j][0];
          target[j * 8 + 2 * t + 1][i * 16 + g] = sums[i][j][1];
          target[j * 8 + 2 * t][i * 16 + 8 + g] = sums[i][j][2];
          target[j * 8 + 2 * t + 1][i * 16 + 8 + g] = sums[i][j][3];
        }
      }
      now = next;
    }
    __syncthreads();
#pragma unroll
    for (int o = 0; o < kOwned; ++o) {
      const int output = o * kThreads + static_cast<int>(threadIdx.x);
      const int row = output / kTileRows;
      const int col = output % kTileRows;
      if (output >= kOutputs || row >= tile.count) continue;
      if constexpr (Form::kFormat == WeightFormat::fp8_block) {
        const int64_t from = p.x_rows == nullptr ? tile.first + row : p.x_rows[tile.first + row];
        const float* x_scale = p.x_scales + from * p.x_scale_stride;
        const float* w_scale = static_cast<const float*>(w.scale) + (w_row0 + col) / kScaleBlock * blocks;
        if (col0 + col >= out_cols) continue;
#pragma unroll 8
        for (int64_t b = round; b < end; ++b) {
          owned[o] = __fmaf_rn(sums_of[b - round][row][col], __fmul_rn(x_scale[b], w_scale[b]), owned[o]);
        }
      } else {
#pragma unroll 8
        for (int64_t b = round; b < end; ++b) owned[o] = __fadd_rn(owned[o], sums_of[b - round][row][col]);
      }
    }
  }
#pragma unroll
  for (int o = 0; o < kOwned; ++o) {
    const int output = o * kThreads + static_cast<int>(threadIdx.x);
    const int64_t row = output / kTileRows;
    const int64_t col = col0 + output % kTileRows;
    if (output >= kOutputs || row >= tile.count || col >= out_cols) continue;
    store_output(p, z, tile.first + row, col, finished<Form>(w, owned[o]));
  }
}

template <class Form, int kRows, int kCols>
void launch(const Matmul& p, cudaStream_t stream) {
  const int64_t out_cols = p.out_cols == 0 ? p.weight.rows : p.out_cols;
  const dim3 grid(static_cast<unsigned>((out_cols + kRows * 16 - 1) / (kRows * 16)),
                  static_cast<unsigned>(row_tile_count<kCols * 8>(p)), static_cast<unsigned>(p.batch));
  skinny_kernel<Form, kRows, kCols><<<grid, kThreads, kSharedBytes<Form, kRows>, stream>>>(p);
  check(cudaGetLastError(), "launching multiply_skinny");
}

/// Times 16 rows of weights in a tile: of NVFP4 x is four times the weights' bytes, so more rows share it.
template <class Form>
constexpr int kTileRows16 = Form::kFormat == WeightFormat::nvfp4 ? 2 : 1;

template <class Form, int kCols>
void allow_shared() {
  check(cudaFuncSetAttribute(skinny_kernel<Form, kTileRows16<Form>, kCols>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kSharedBytes<Form, kTileRows16<Form>>),
        "raising a kernel's shared memory");
}

template <class Form>
void launch_form(const Matmul& p, cudaStream_t stream) {
  const int64_t rows = p.tiles.used == nullptr ? p.rows : p.tiles.tile_rows;
  if (rows <= 8) {
    launch<Form, kTileRows16<Form>, 1>(p, stream);
  } else if (rows <= 16) {
    launch<Form, kTileRows16<Form>, 2>(p, stream);
  } else {
    launch<Form, kTileRows16<Form>, 4>(p, stream);
  }
}

template <class Form>
void prepare_form() {
  allow_shared<Form, 1>();
  allow_shared<Form, 2>();
  allow_shared<Form, 4>();
}

}  // namespace

void prepare_skinny() {
  prepare_form<Bf16Form>();
  prepare_form<Fp8Form>();
  prepare_form<Fp4Form>();
}

void multiply_skinny(const Matmul& p, cudaStream_t stream) {
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
