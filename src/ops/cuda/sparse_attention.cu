// Sparse attention on the tensor cores. A block takes up to 32 heads of one row. Tiles of 64 selected rows
// are gathered into shared memory as bfloat16; keys are the instruction's 16 rows, heads its 8 columns, so
// that 8 heads need no padding.
#include <algorithm>

#include "ops/cuda/cache_rows.cuh"
#include "ops/cuda/check.h"
#include "ops/cuda/sparse_attention.h"
#include "ops/cuda/sparse_attention_tiles.cuh"

namespace glint::ops::cuda {

namespace {

struct Pieces {  // of one row, head and group, and of the whole in the end
  float* o;      // [rows][heads][groups][512]
  float* largest;
  float* sum;  // [rows][heads][groups]
};

/// Merges a group's (largest, sum) into the whole: the factors of both.
__device__ __forceinline__ void merge_factors(float largest, float sum, float& whole_largest,
                                              float& whole_sum, float& keep, float& take) {
  const float now = fmaxf(whole_largest, largest);
  keep = expf(whole_largest - now);
  take = expf(largest - now);
  whole_sum = __fadd_rn(__fmul_rn(whole_sum, keep), __fmul_rn(sum, take));
  whole_largest = now;
}
__device__ __forceinline__ float merged(float whole, float keep, float piece, float take) {
  return __fadd_rn(__fmul_rn(whole, keep), __fmul_rn(piece, take));
}

// kSplit: one block a group, whose result goes to `pieces`; otherwise one block makes and merges all groups.
template <int kCols, bool kSplit>
__global__ void __launch_bounds__(kThreads, kCols < 4 ? 2 : 1)
    attend_kernel(SparseAttention a, Pieces pieces) {
  using Layout = SharedLayout<kCols>;
  constexpr int kHeads = Layout::kHeads;
  extern __shared__ __align__(128) std::byte shared[];
  auto* keys = reinterpret_cast<uint4*>(shared);
  auto* query = reinterpret_cast<uint4*>(shared + Layout::kKeysBytes);
  auto* scores = reinterpret_cast<float*>(shared + Layout::kKeysBytes + Layout::kQueryBytes);
  auto* probabilities = reinterpret_cast<__nv_bfloat16*>(scores + Layout::kScoreBytes / 4);
  auto* largest = reinterpret_cast<float*>(probabilities + Layout::kProbabilityBytes / 2);
  float* sum = largest + kHeads;
  float* factor = sum + kHeads;

  const int64_t row = blockIdx.x;
  const int64_t head0 = static_cast<int64_t>(blockIdx.y) * kHeads;
  const int live_heads = static_cast<int>(min(static_cast<int64_t>(kHeads), a.heads - head0));
  const int count = a.selection.count[row];
  const int groups = (count + kGroup - 1) / kGroup;
  const int group_first = kSplit ? static_cast<int>(blockIdx.z) : 0;
  const int group_end = kSplit ? group_first + 1 : groups;
  if (group_first >= groups) return;
  const int32_t* list = a.selection.lists.data + row * a.selection.lists.cols;
  const auto* q = static_cast<const __nv_bfloat16*>(a.q.data) + row * a.q.stride + head0 * kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < kHeads * kUnits; i += kThreads) {
    const int head = i / kUnits;
    query[head * kStride + i % kUnits] =
        head < live_heads ? *reinterpret_cast<const uint4*>(q + head * kWidth + i % kUnits * 8) : uint4{};
  }
  const auto keys_address = static_cast<uint32_t>(__cvta_generic_to_shared(keys));
  const auto query_address = static_cast<uint32_t>(__cvta_generic_to_shared(query));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int dim0 = static_cast<int>(threadIdx.x) / 32 * 64;

  // With few heads there are registers for the next tile's rows while this one is worked on.
  constexpr bool kReadsAhead = kCols == 1;
  const bool fp8 = a.cache.format == CacheFormat::fp8_latent;
  RawRow raw;
  if (kReadsAhead && fp8) {
    load_raw(a, row, list + group_first * kGroup, min(kTile, count - group_first * kGroup), raw);
  }

  float whole[kSplit ? 1 : 4][kSplit ? 1 : kCols][4] = {};
  float whole_largest[kCols][2];
  float whole_sum[kCols][2];
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    whole_largest[j][0] = whole_largest[j][1] = -INFINITY;
    whole_sum[j][0] = whole_sum[j][1] = 0;
  }
  for (int group = group_first; group < group_end; ++group) {
    float sums[4][kCols][4] = {};
    for (int tile = 0; tile < kTilesPerGroup; ++tile) {
      const int first = group * kGroup + tile * kTile;
      if (first >= count) break;
      const int tile_count = min(kTile, count - first);
      if (!fp8) {
        __syncthreads();
        copy_rows(a, row, list + first, tile_count, keys_address);
        wait_for_copies<0>();
      } else {
        if (!kReadsAhead) load_raw(a, row, list + first, tile_count, raw);
        __syncthreads();
        store_raw(raw, keys);
        const int next = first + kTile;
        if (kReadsAhead && next < min(count, group_end * kGroup)) {
          load_raw(a, row, list + next, min(kTile, count - next), raw);
        }
      }
      __syncthreads();
      score_tile<kCols>(keys_address, query_address, scores);
      __syncthreads();
      soften_tile<kCols>(scores, a.scale, tile_count, tile == 0, probabilities, largest, sum, factor);
      __syncthreads();
      add_values<kCols>(keys_address, probabilities, factor, sums);
    }
    if constexpr (kSplit) {
      const int64_t piece_groups = gridDim.z;
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int head = j * 8 + 2 * t + e % 2;
          if (head >= live_heads) continue;
          float* out = pieces.o + ((row * a.heads + head0 + head) * piece_groups + group) * kLatent;
#pragma unroll
          for (int i = 0; i < 4; ++i) out[dim0 + i * 16 + e / 2 * 8 + g] = sums[i][j][e];
        }
      }
      for (int head = static_cast<int>(threadIdx.x); head < live_heads; head += kThreads) {
        pieces.largest[(row * a.heads + head0 + head) * piece_groups + group] = largest[head];
        pieces.sum[(row * a.heads + head0 + head) * piece_groups + group] = sum[head];
      }
    } else {
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int head = j * 8 + 2 * t + e;
          float keep;
          float take;
          merge_factors(largest[head], sum[head], whole_largest[j][e], whole_sum[j][e], keep, take);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            whole[i][j][e] = merged(whole[i][j][e], keep, sums[i][j][e], take);
            whole[i][j][e + 2] = merged(whole[i][j][e + 2], keep, sums[i][j][e + 2], take);
          }
        }
      }
    }
  }
  if constexpr (!kSplit) {
    auto* o = static_cast<__nv_bfloat16*>(a.o.data) + row * a.o.stride + head0 * kLatent;
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int head = j * 8 + 2 * t + e % 2;
        if (head >= live_heads) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          o[head * kLatent + dim0 + i * 16 + e / 2 * 8 + g] =
              __float2bfloat16_rn(__fdiv_rn(whole[i][j][e], whole_sum[j][e % 2]));
        }
      }
    }
  }
}

__global__ void merge_kernel(SparseAttention a, Pieces pieces, int piece_groups) {
  const int64_t row = blockIdx.x;
  const int64_t head = blockIdx.y;
  const int groups = (a.selection.count[row] + kGroup - 1) / kGroup;
  const int64_t first = (row * a.heads + head) * piece_groups;
  float whole[4] = {};
  float whole_largest = -INFINITY;
  float whole_sum = 0;
  for (int group = 0; group < groups; ++group) {
    float keep;
    float take;
    merge_factors(pieces.largest[first + group], pieces.sum[first + group], whole_largest, whole_sum, keep,
                  take);
    const float4 piece = reinterpret_cast<const float4*>(pieces.o + (first + group) * kLatent)[threadIdx.x];
    whole[0] = merged(whole[0], keep, piece.x, take);
    whole[1] = merged(whole[1], keep, piece.y, take);
    whole[2] = merged(whole[2], keep, piece.z, take);
    whole[3] = merged(whole[3], keep, piece.w, take);
  }
  auto* o = static_cast<__nv_bfloat16*>(a.o.data) + row * a.o.stride + head * kLatent + threadIdx.x * 4;
  for (int i = 0; i < 4; ++i) o[i] = __float2bfloat16_rn(__fdiv_rn(whole[i], whole_sum));
}

constexpr int64_t kMultiprocessors = 132;  // of an H200: fewer blocks than that are split further

int64_t head_groups(int64_t heads) {
  return (heads + kHeadsMax - 1) / kHeadsMax;
}
/// Steps of up to so many rows are split.
int64_t split_rows_max(int64_t heads) {
  return std::max<int64_t>(1, (kMultiprocessors - 1) / head_groups(heads));
}
bool splits(const SparseAttention& a) {
  return a.q.rows <= split_rows_max(a.heads);
}
int64_t group_count(const SparseAttention& a) {
  return (a.selection.lists.cols + kGroup - 1) / kGroup;
}

template <int kCols>
void launch(const SparseAttention& a, const Pieces& pieces, cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(a.q.rows);
  const auto heads = static_cast<unsigned>((a.heads + kCols * 8 - 1) / (kCols * 8));
  constexpr int kBytes = SharedLayout<kCols>::kBytes;
  if (splits(a)) {
    const auto groups = static_cast<unsigned>(group_count(a));
    attend_kernel<kCols, true><<<dim3(rows, heads, groups), kThreads, kBytes, stream>>>(a, pieces);
    check(cudaGetLastError(), "launching attend");
    merge_kernel<<<dim3(rows, static_cast<unsigned>(a.heads)), kLatent / 4, 0, stream>>>(
        a, pieces, static_cast<int>(groups));
  } else {
    attend_kernel<kCols, false><<<dim3(rows, heads), kThreads, kBytes, stream>>>(a, pieces);
  }
  check(cudaGetLastError(), "launching attend");
}

template <int kCols>
void prepare() {
  for (const void* kernel : {reinterpret_cast<const void*>(attend_kernel<kCols, true>),
                             reinterpret_cast<const void*>(attend_kernel<kCols, false>)}) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SharedLayout<kCols>::kBytes),
          "raising a kernel's shared memory");
  }
}

}  // namespace

void prepare_attention() {
  prepare<1>();
  prepare<2>();
  prepare<4>();
  prepare_attention_plain();
}

bool has_tensor_core_form(const SparseAttention& a, ComputeDType dtype) {
  return dtype == ComputeDType::bfloat16 && a.cache.width == kWidth && a.kv_lora == kLatent &&
         a.cache.format != CacheFormat::float32;
}

int64_t attention_scratch_floats(const SparseAttention& a, ComputeDType dtype) {
  if (!has_tensor_core_form(a, dtype)) return 0;
  // Of as many rows as are split: a plan for many rows must hold for fewer.
  return std::min(a.q.rows, split_rows_max(a.heads)) * a.heads * group_count(a) * (kLatent + 2);
}

void attend(const SparseAttention& a, ComputeDType dtype, float* scratch, cudaStream_t stream) {
  if (a.q.rows == 0) return;
  if (!has_tensor_core_form(a, dtype)) {
    attend_plain(a, dtype, stream);
    return;
  }
  const int64_t pieces_count = a.q.rows * a.heads * group_count(a);
  const Pieces pieces{scratch, scratch + pieces_count * kLatent, scratch + pieces_count * (kLatent + 1)};
  if (a.heads <= 8) {
    launch<1>(a, pieces, stream);
  } else if (a.heads <= 16) {
    launch<2>(a, pieces, stream);
  } else {
    launch<4>(a, pieces, stream);
  }
}

}  // namespace glint::ops::cuda
