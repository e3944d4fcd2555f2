// Many rows of x on Hopper's own matrix instructions (wgmma): FP8 by FP8 with float32 promotion every 128
// columns, and bfloat16 by bfloat16.
//
// A block of two warpgroups makes 128 rows of x by 128 rows of W; each warpgroup 64 rows of x. Tiles of 128
// bytes a row pass through a ring in shared memory, in the instruction's 128-byte swizzle. The sum of one
// step is promoted while the next step's instructions run. The instruction adds FP8 products with fewer bits
// than float32 and in an order of its own: results differ in the last bits from the other kernels'
// (matmul.h), so a row's bits depend on which kernel its step took. That is why this kernel stays out of the
// batch-invariant mode.
#include "ops/cuda/check.h"
#include "ops/cuda/matmul_core.cuh"

namespace glint::ops::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kTileX = 128;
constexpr int kTileW = 128;
constexpr int kStepBytes = 128;  // of a row of x and of W
constexpr int kStages = 6;
constexpr int kAhead = kStages - 2;
constexpr int kStageBytes = (kTileX + kTileW) * kStepBytes;
constexpr int kAlign = 1024;  // of a swizzled tile
constexpr int kSharedBytes = kStages * kStageBytes + kAlign;
constexpr int kGroupTiles = 8;  // tiles of x that share a tile of W before the next one comes

/// The matrix descriptor of a tile at `address`: rows of 128 bytes, eight of them 1024 bytes, 128-byte
/// swizzle.
__device__ __forceinline__ uint64_t descriptor(uint32_t address) {
  return static_cast<uint64_t>((address & 0x3FFFFU) >> 4) | 1ULL << 16 | 64ULL << 32 | 1ULL << 62;
}

__device__ __forceinline__ void multiply_fp8(float (&d)[64], uint64_t a, uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
        "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
        "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
        "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void multiply_bf16(float (&d)[64], uint64_t a, uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
        "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
        "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
        "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b), "r"(add));
}

__device__ __forceinline__ void begin_multiply() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void end_multiply() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void wait_for_multiply(float (&d)[64]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
  // What was waited for must not be read earlier.
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

/// Where a thread's 16-byte units of each step come from.
struct Sources {
  const std::byte* x[4];  // null: no such row
  const std::byte* w[4];
  int64_t bytes;  // of a row
};

__device__ __forceinline__ void fill_stage(const Sources& s, int64_t step, uint32_t stage) {
  const int u = static_cast<int>(threadIdx.x) % 8;
  const int row = static_cast<int>(threadIdx.x) / 8;
  const int64_t byte = step * kStepBytes + u * 16;
  const bool inside = byte < s.bytes;
  // Row i * 32 + row has the same place in its group of eight for all i.
  const uint32_t place = stage + row * kStepBytes + ((u ^ (row & 7)) * 16);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool valid = inside && s.x[i] != nullptr;
    copy_async(place + i * 32 * kStepBytes, valid ? s.x[i] + byte : s.w[0], valid);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool valid = inside && s.w[i] != nullptr;
    copy_async(place + (kTileX + i * 32) * kStepBytes, valid ? s.w[i] + byte : s.w[0], valid);
  }
}

struct Fp8 {
  static constexpr int kElement = 1;
  static constexpr bool kPromotes = true;
  __device__ static void step(float (&d)[64], uint64_t a, uint64_t b, int add) { multiply_fp8(d, a, b, add); }
};
struct Bf16 {
  static constexpr int kElement = 2;
  static constexpr bool kPromotes = false;
  __device__ static void step(float (&d)[64], uint64_t a, uint64_t b, int add) {
    multiply_bf16(d, a, b, add);
  }
};

/// Starts the products of one step: four instructions of 32 bytes a row.
template <class Form>
__device__ __forceinline__ void start_step(float (&sums)[64], uint32_t stage, int warpgroup, bool add) {
  const uint64_t x = descriptor(stage + static_cast<uint32_t>(warpgroup) * 64 * kStepBytes);
  const uint64_t w = descriptor(stage + kTileX * kStepBytes);
  begin_multiply();
#pragma unroll
  for (int k = 0; k < 4; ++k)
    Form::step(sums, x + static_cast<uint64_t>(2 * k), w + static_cast<uint64_t>(2 * k),
               add || k > 0 ? 1 : 0);
  end_multiply();
}

struct Scales {
  float near, far;  // of the thread's two rows
};
__device__ __forceinline__ void promote(float (&totals)[64], const float (&sums)[64], const Scales& s) {
#pragma unroll
  for (int i = 0; i < 64; i += 4) {
    totals[i] = __fmaf_rn(sums[i], s.near, totals[i]);
    totals[i + 1] = __fmaf_rn(sums[i + 1], s.near, totals[i + 1]);
    totals[i + 2] = __fmaf_rn(sums[i + 2], s.far, totals[i + 2]);
    totals[i + 3] = __fmaf_rn(sums[i + 3], s.far, totals[i + 3]);
  }
}

template <class Form>
__global__ void __launch_bounds__(kThreads, 1) hopper_kernel(Matmul p, int row_tiles, int col_tiles) {
  extern __shared__ __align__(1024) std::byte raw[];
  // Tiles of x in groups, so that those that run together share what they read.
  const int group_size = kGroupTiles * col_tiles;
  const int group = static_cast<int>(blockIdx.x) / group_size;
  const int in_group = min(kGroupTiles, row_tiles - group * kGroupTiles);
  const int rest = static_cast<int>(blockIdx.x) % group_size;
  const RowTile tile = row_tile<kTileX>(p, group * kGroupTiles + rest % in_group);
  if (tile.count <= 0) return;
  const int64_t z = blockIdx.z;
  const Weight w = p.table == nullptr ? p.weight : p.table[tile.expert * p.table_stride + z];
  const int64_t out_cols = p.out_cols == 0 ? w.rows : p.out_cols;
  const int64_t col0 = static_cast<int64_t>(rest / in_group) * kTileW;
  const int64_t w_row0 = col0 + z * p.w_batch_rows;

  const auto shared_address = static_cast<uint32_t>(__cvta_generic_to_shared(raw));
  const uint32_t stages = (shared_address + kAlign - 1) / kAlign * kAlign;
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row_near = warpgroup * 64 + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;

  const auto row_of_x = [&](int row) -> int64_t {
    const int64_t y_row = tile.first + row;
    return p.x_rows == nullptr ? y_row : p.x_rows[y_row];
  };
  Sources sources;
  sources.bytes = w.cols * Form::kElement;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = static_cast<int>(threadIdx.x) / 8 + i * 32;
    sources.x[i] = row < tile.count ? static_cast<const std::byte*>(p.x) +
                                          (row_of_x(row) * p.x_stride + z * p.x_batch) * Form::kElement
                                    : nullptr;
    sources.w[i] = col0 + row < out_cols
                       ? static_cast<const std::byte*>(w.data) + (w_row0 + row) * sources.bytes
                       : nullptr;
  }
  if (sources.w[0] == nullptr) sources.w[0] = static_cast<const std::byte*>(w.data) + w_row0 * sources.bytes;

  const int64_t steps = (sources.bytes + kStepBytes - 1) / kStepBytes;
  const float* x_near = nullptr;
  const float* x_far = nullptr;
  const float* w_scales = nullptr;
  if constexpr (Form::kPromotes) {
    x_near = p.x_scales + (row_near < tile.count ? row_of_x(row_near) : row_of_x(0)) * p.x_scale_stride;
    x_far =
        p.x_scales + (row_near + 8 < tile.count ? row_of_x(row_near + 8) : row_of_x(0)) * p.x_scale_stride;
    w_scales = static_cast<const float*>(w.scale) + w_row0 / kScaleBlock * steps;
  }
  const auto scales_of = [&](int64_t step) -> Scales {
    if constexpr (Form::kPromotes) {
      return {__fmul_rn(x_near[step], w_scales[step]), __fmul_rn(x_far[step], w_scales[step])};
    } else {
      return {};
    }
  };

#pragma unroll
  for (int s = 0; s < kAhead; ++s) {
    if (s < steps) fill_stage(sources, s, stages + s * kStageBytes);
    commit_copies();
  }
  float totals[64];
  if constexpr (Form::kPromotes) {
#pragma unroll
    for (float& total : totals) total = 0;
  }
  const auto arrive = [&](int64_t step) {
    wait_for_copies<kAhead - 1>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (step + kAhead < steps) {
      fill_stage(sources, step + kAhead,
                 stages + static_cast<uint32_t>((step + kAhead) % kStages) * kStageBytes);
    }
    commit_copies();
    return stages + static_cast<uint32_t>(step % kStages) * kStageBytes;
  };
  if constexpr (Form::kPromotes) {
    float even[64];
    float odd[64];
    Scales even_scales{};
    Scales odd_scales{};
    for (int64_t step = 0; step < steps; step += 2) {
      uint32_t stage = arrive(step);
      start_step<Form>(even, stage, warpgroup, false);
      even_scales = scales_of(step);
      if (step > 0) {
        wait_for_multiply<1>(odd);
        promote(totals, odd, odd_scales);
      }
      if (step + 1 == steps) break;
      stage = arrive(step + 1);
      start_step<Form>(odd, stage, warpgroup, false);
      odd_scales = scales_of(step + 1);
      wait_for_multiply<1>(even);
      promote(totals, even, even_scales);
    }
    if (steps % 2 == 1) {
      wait_for_multiply<0>(even);
      promote(totals, even, even_scales);
    } else {
      wait_for_multiply<0>(odd);
      promote(totals, odd, odd_scales);
    }
  } else {
    for (int64_t step = 0; step < steps; ++step) {
      const uint32_t stage = arrive(step);
      start_step<Form>(totals, stage, warpgroup, step > 0);
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    wait_for_multiply<0>(totals);
  }
  wait_for_copies<0>();
  __syncthreads();

  // Through shared memory, so that whole rows of y are written.
  constexpr int kOutStride = kTileW + 4;
  auto* out = reinterpret_cast<float*>(raw + (stages - shared_address));
#pragma unroll
  for (int i = 0; i < 64; i += 2) {
    const int row = row_near + i / 2 % 2 * 8;
    const int col = i / 4 * 8 + lane % 4 * 2;
    *reinterpret_cast<float2*>(out + row * kOutStride + col) = make_float2(totals[i], totals[i + 1]);
  }
  __syncthreads();
  constexpr int kVector = 8;
  const bool vectors =
      p.y_stride % 8 == 0 && p.y_batch % 8 == 0 && reinterpret_cast<uintptr_t>(p.y) % 16 == 0;
  for (int i = static_cast<int>(threadIdx.x); i < kTileX * kTileW / kVector; i += kThreads) {
    const int row = i / (kTileW / kVector);
    const int col = i % (kTileW / kVector) * kVector;
    if (row >= tile.count || col0 + col >= out_cols) continue;
    const float* source = out + row * kOutStride + col;
    const int64_t at = (tile.first + row) * p.y_stride + z * p.y_batch + col0 + col;
    if (!vectors || col0 + col + kVector > out_cols) {
      for (int e = 0; e < kVector && col0 + col + e < out_cols; ++e) {
        store_output(p, z, tile.first + row, col0 + col + e, source[e]);
      }
    } else if (p.y_is_float) {
      auto* target = reinterpret_cast<float4*>(static_cast<float*>(p.y) + at);
      target[0] = *reinterpret_cast<const float4*>(source);
      target[1] = *reinterpret_cast<const float4*>(source + 4);
    } else {
      const uint4 packed{bf16_pair(source[0], source[1]), bf16_pair(source[2], source[3]),
                         bf16_pair(source[4], source[5]), bf16_pair(source[6], source[7])};
      *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(p.y) + at) = packed;
    }
  }
}

template <class Form>
void launch(const Matmul& p, cudaStream_t stream) {
  const int64_t out_cols = p.out_cols == 0 ? p.weight.rows : p.out_cols;
  const auto row_tiles = static_cast<int>(row_tile_count<kTileX>(p));
  const auto col_tiles = static_cast<int>((out_cols + kTileW - 1) / kTileW);
  const dim3 grid(static_cast<unsigned>(row_tiles * col_tiles), 1, static_cast<unsigned>(p.batch));
  hopper_kernel<Form><<<grid, kThreads, kSharedBytes, stream>>>(p, row_tiles, col_tiles);
  check(cudaGetLastError(), "launching multiply_hopper");
}

template <class Form>
void prepare() {
  check(cudaFuncSetAttribute(hopper_kernel<Form>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "raising a kernel's shared memory");
}

}  // namespace

void prepare_hopper() {
  prepare<Fp8>();
  prepare<Bf16>();
}

bool has_hopper_form(const Matmul& p) {
  if (!has_tensor_core_form(p)) return false;
  // Whole vectors of 16 bytes, and scales that belong to one tile of W.
  if (p.weight.format == WeightFormat::fp8_block) return true;
  return p.weight.format == WeightFormat::bf16;
}

void multiply_hopper(const Matmul& p, cudaStream_t stream) {
  if (p.rows == 0) return;
  if (p.weight.format == WeightFormat::fp8_block) {
    launch<Fp8>(p, stream);
  } else {
    launch<Bf16>(p, stream);
  }
}

}  // namespace glint::ops::cuda
