#include <algorithm>
#include <type_traits>

#include "ops/cuda/cache_rows.cuh"
#include "ops/cuda/check.h"
#include "ops/cuda/select.h"

namespace glint::ops::cuda {

namespace {

constexpr int kHeads = 32;
constexpr int kHeadDim = 128;
constexpr int kRowUnits = kHeadDim * 2 / 16;  // of 16 bytes
constexpr int kKeys = static_cast<int>(kPageTokens);
constexpr int64_t kPagesPerBlock = 4;

__device__ __forceinline__ int swizzled(int row, int u) {
  return u ^ ((row & 1) << 2 | (row >> 1 & 3));
}

__device__ __forceinline__ uint32_t bf16_pair_of_e4m3(uint32_t codes) {
  const uint32_t halves = half_pair_of_e4m3(static_cast<uint16_t>(codes));
  const float2 values = __half22float2(*reinterpret_cast<const __half2*>(&halves));
  return bf16_pair(values.x, values.y);
}

/// Brings a page of keys into shared memory as bfloat16, without the scales of fp8_keys.
__device__ void widen_page(const CacheLayer& keys, int64_t page, int threads, uint4* tile,
                           float* key_scales) {
  const int tid = static_cast<int>(threadIdx.x);
  if (keys.format == CacheFormat::bfloat16) {
    for (int i = tid; i < kKeys * kRowUnits; i += threads) {
      const int key = i / kRowUnits;
      const int u = i % kRowUnits;
      tile[key * kRowUnits + swizzled(key, u)] =
          reinterpret_cast<const uint4*>(cache_row(keys, page, key))[u];
    }
    return;
  }
  for (int i = tid; i < kKeys * kRowUnits / 2; i += threads) {
    const int key = i / (kRowUnits / 2);
    const int u = i % (kRowUnits / 2);
    const uint4 raw = reinterpret_cast<const uint4*>(cache_row(keys, page, key))[u];
    uint4 low;
    uint4 high;
    low.x = bf16_pair_of_e4m3(raw.x & 0xFFFFU);
    low.y = bf16_pair_of_e4m3(raw.x >> 16);
    low.z = bf16_pair_of_e4m3(raw.y & 0xFFFFU);
    low.w = bf16_pair_of_e4m3(raw.y >> 16);
    high.x = bf16_pair_of_e4m3(raw.z & 0xFFFFU);
    high.y = bf16_pair_of_e4m3(raw.z >> 16);
    high.z = bf16_pair_of_e4m3(raw.w & 0xFFFFU);
    high.w = bf16_pair_of_e4m3(raw.w >> 16);
    tile[key * kRowUnits + swizzled(key, 2 * u)] = low;
    tile[key * kRowUnits + swizzled(key, 2 * u + 1)] = high;
  }
  for (int key = tid; key < kKeys; key += threads) {
    key_scales[key] = *reinterpret_cast<const float*>(key_scale(keys, page, key));
  }
}

/// A row's queries as fragments, and its weights.
struct RowQuery {
  uint4 q[4][kHeads / 8];  // chunks of 32 values
  float w[kHeads / 8][2];
};

__device__ void load_query(Activation q, Floats w, float scale, int64_t row, RowQuery& out) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const auto* values = static_cast<const __nv_bfloat16*>(q.data) + row * q.stride;
  const float* weights = w.data + row * w.stride;
#pragma unroll
  for (int j = 0; j < kHeads / 8; ++j) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      out.q[c][j] = *reinterpret_cast<const uint4*>(values + (j * 8 + g) * kHeadDim + c * 32 + t * 8);
    }
    out.w[j][0] = __fmul_rn(scale, weights[j * 8 + 2 * t]);
    out.w[j][1] = __fmul_rn(scale, weights[j * 8 + 2 * t + 1]);
  }
}

/// The scores of keys first + g and first + g + 8, in every lane of a quad.
__device__ void score_group(const RowQuery& query, const uint4* tile, int first, float (&scores)[2]) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  float sums[kHeads / 8][4] = {};
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const int row = first + g;
    const uint4 near = tile[row * kRowUnits + swizzled(row, c * 4 + t)];
    const uint4 far = tile[(row + 8) * kRowUnits + swizzled(row + 8, c * 4 + t)];
#pragma unroll
    for (int j = 0; j < kHeads / 8; ++j) {
      const uint4& b = query.q[c][j];
      mma_bf16(sums[j], near.x, far.x, near.y, far.y, b.x, b.y);
      mma_bf16(sums[j], near.z, far.z, near.w, far.w, b.z, b.w);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kHeads / 8; ++j) {
      // NaN must come through: fmaxf would drop it.
      const float first_head = sums[j][2 * half];
      const float second_head = sums[j][2 * half + 1];
      sum = __fmaf_rn(query.w[j][0], first_head < 0 ? 0.0F : first_head, sum);
      sum = __fmaf_rn(query.w[j][1], second_head < 0 ? 0.0F : second_head, sum);
    }
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    scores[half] = sum;
  }
}

struct ScoreArguments {
  Activation q;
  Floats w;
  float scale;
  RowMap rows;
  CacheLayer keys;
  int64_t first, count;
  float* scores;
  int64_t stride;
};

// kRows rows of a block share each widened page if they are of one sequence; kWarps / kRows warps a row.
template <int kRows, int kWarps>
__global__ void __launch_bounds__(kWarps * 32) score_kernel(ScoreArguments a) {
  constexpr int kWarpsPerRow = kWarps / kRows;
  __shared__ __align__(16) uint4 tile[kKeys * kRowUnits];
  __shared__ float key_scales[kKeys];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kRows;
  const int64_t mine = row0 + warp / kWarpsPerRow;
  const int64_t page_first = static_cast<int64_t>(blockIdx.x) * kPagesPerBlock;
  const bool live = mine < a.count;
  const int64_t my_position = live ? a.rows.position[a.first + mine] : -1;
  const int32_t my_sequence = live ? a.rows.sequence[a.first + mine] : -1;
  RowQuery query;
  if (live && page_first * kKeys <= my_position) load_query(a.q, a.w, a.scale, a.first + mine, query);
  for (int64_t row = row0; row < min(row0 + kRows, a.count);) {
    const int32_t sequence = a.rows.sequence[a.first + row];
    int64_t same = row + 1;
    while (same < min(row0 + kRows, a.count) && a.rows.sequence[a.first + same] == sequence) ++same;
    const int64_t last_position = a.rows.position[a.first + same - 1];
    for (int64_t page = page_first; page < page_first + kPagesPerBlock && page * kKeys <= last_position;
         ++page) {
      __syncthreads();
      widen_page(a.keys, page_of(a.rows, a.first + row, page * kKeys), kWarps * 32, tile, key_scales);
      __syncthreads();
      if (!live || my_sequence != sequence) continue;
      for (int group = warp % kWarpsPerRow; group < kKeys / 16; group += kWarpsPerRow) {
        const int64_t first_key = page * kKeys + group * 16;
        if (first_key > my_position) break;
        float scores[2];
        score_group(query, tile, group * 16, scores);
        // Lanes 0 and 1 of a quad write a key each.
        const int half = lane % 4;
        const int64_t key = first_key + half * 8 + lane / 4;
        float score = half == 0 ? scores[0] : scores[1];
        if (half < 2 && key <= my_position) {
          if (a.keys.format == CacheFormat::fp8_keys) score = __fmul_rn(score, key_scales[key % kKeys]);
          a.scores[mine * a.stride + key] = score;
        }
      }
    }
    row = same;
  }
}

// Any sizes and formats: one warp a key. float32 is the reference: its sums are float64.
template <class T>
__global__ void plain_score_kernel(ScoreArguments a, int heads) {
  const int64_t row = static_cast<int64_t>(blockIdx.y);
  const int64_t position = a.rows.position[a.first + row];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int dim = static_cast<int>(a.keys.width);
  const T* q = static_cast<const T*>(a.q.data) + (a.first + row) * a.q.stride;
  const float* w = a.w.data + (a.first + row) * a.w.stride;
  for (int64_t key = static_cast<int64_t>(blockIdx.x) * kKeys + threadIdx.x / 32;
       key < (static_cast<int64_t>(blockIdx.x) + 1) * kKeys && key <= position; key += warps) {
    const int64_t page = page_of(a.rows, a.first + row, key);
    using Sum = std::conditional_t<sizeof(T) == 4, double, float>;
    Sum sum = 0;
    for (int h = 0; h < heads; ++h) {
      Sum dot = 0;
      for (int d = lane; d < dim; d += 32) {
        dot = fma(static_cast<Sum>(load_value(q + static_cast<int64_t>(h) * dim + d)),
                  static_cast<Sum>(cache_value(a.keys, page, key % kKeys, d)), dot);
      }
      dot = warp_sum(dot);
      sum = fma(static_cast<Sum>(a.scale) * static_cast<Sum>(w[h]), dot < 0 ? Sum{0} : dot, sum);
    }
    if (lane == 0) a.scores[row * a.stride + key] = static_cast<float>(sum);
  }
}

}  // namespace

void score_keys(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys,
                int64_t heads, int64_t first, int64_t count, float* scores, int64_t stride,
                ComputeDType dtype, cudaStream_t stream) {
  const ScoreArguments a{q, w, scale, rows, keys, first, count, scores, stride};
  const int64_t pages = (rows.context_max + kKeys - 1) / kKeys;
  const bool fast = dtype == ComputeDType::bfloat16 && heads == kHeads && keys.width == kHeadDim &&
                    q.stride % 8 == 0 && keys.format != CacheFormat::float32;
  const auto page_groups = static_cast<unsigned>((pages + kPagesPerBlock - 1) / kPagesPerBlock);
  if (!fast) {
    // grid.y ends at 65,535.
    constexpr int64_t kRowsMax = 65535;
    for (int64_t row = 0; row < count; row += kRowsMax) {
      ScoreArguments part = a;
      part.first += row;
      part.scores += row * stride;
      const dim3 grid(static_cast<unsigned>(pages), static_cast<unsigned>(std::min(kRowsMax, count - row)));
      if (dtype == ComputeDType::bfloat16) {
        plain_score_kernel<__nv_bfloat16><<<grid, 256, 0, stream>>>(part, static_cast<int>(heads));
      } else {
        plain_score_kernel<float><<<grid, 256, 0, stream>>>(part, static_cast<int>(heads));
      }
    }
  } else if (count >= 64) {
    score_kernel<8, 8><<<dim3(page_groups, static_cast<unsigned>((count + 7) / 8)), 256, 0, stream>>>(a);
  } else {
    score_kernel<1, 4><<<dim3(page_groups, static_cast<unsigned>(count)), 128, 0, stream>>>(a);
  }
  check(cudaGetLastError(), "launching score_keys");
}

}  // namespace glint::ops::cuda
