// Sparse attention on the tensor cores. A block takes up to 32 heads of one row. Tiles of 64 selected rows
// are gathered into shared memory as bfloat16; keys are the instruction's 16 rows, heads its 8 columns, so
// that 8 heads need no padding.
#include <algorithm>

#include "ops/cuda/cache_rows.cuh"
#include "ops/cuda/check.h"
#include "ops/cuda/sparse_attention.h"

namespace glint::ops::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kLatent = 512;
constexpr int kRope = 64;
constexpr int kWidth = kLatent + kRope;
constexpr int kUnits = kWidth * 2 / 16;  // 16-byte units of a row
constexpr int kStride = kUnits + 1;      // in units; odd, so that eight rows lie in different banks
constexpr int kTile = 64;                // positions
constexpr int kTilesPerGroup = 2;
constexpr int kGroup = kTile * kTilesPerGroup;
constexpr int kProbabilityStride = kTile + 8;  // bfloat16 values
constexpr int kHeadsMax = 32;

struct Pieces {  // of one row, head and group, and of the whole in the end
  float* o;      // [rows][heads][groups][512]
  float* largest;
  float* sum;  // [rows][heads][groups]
};

template <int kCols>
struct SharedLayout {
  static constexpr int kHeads = kCols * 8;
  static constexpr int kKeysBytes = kTile * kStride * 16;
  static constexpr int kQueryBytes = kHeads * kStride * 16;
  static constexpr int kScoreBytes = 2 * kTile * (kHeads + 1) * 4;
  static constexpr int kProbabilityBytes = kHeads * kProbabilityStride * 2;
  static constexpr int kBytes = kKeysBytes + kQueryBytes + kScoreBytes + kProbabilityBytes + 4 * kHeads * 4;
};

__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address));
}
__device__ __forceinline__ void load_matrices_turned(uint32_t address, uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address));
}

__device__ __forceinline__ uint32_t scaled_pair(uint32_t codes, float scale) {
  const uint32_t halves = half_pair_of_e4m3(static_cast<uint16_t>(codes));
  const float2 values = __half22float2(*reinterpret_cast<const __half2*>(&halves));
  return bf16_pair(values.x * scale, values.y * scale);
}

/// A quarter of a selected row as it lies in the cache: what a thread gathers of a tile of FP8 rows.
struct RawRow {
  uint4 codes[8];
  uint4 others[2];
  float scale;
  bool valid;
};

__device__ __forceinline__ void load_raw(const SparseAttention& a, int64_t row, const int32_t* list,
                                         int count, RawRow& raw) {
  const int key = static_cast<int>(threadIdx.x) / 4;
  const int part = static_cast<int>(threadIdx.x) % 4;  // 128 latent values each
  raw.valid = key < count;
  if (!raw.valid) return;
  const std::byte* source = cache_row(a.cache, page_of(a.rows, row, list[key]), list[key] % kPageTokens);
#pragma unroll
  for (int i = 0; i < 8; ++i) raw.codes[i] = reinterpret_cast<const uint4*>(source)[part * 8 + i];
  raw.scale = reinterpret_cast<const float*>(source + kLatent)[part];
  const auto* others = reinterpret_cast<const uint4*>(source + kLatent + 16);
  raw.others[0] = others[part];
  raw.others[1] = others[4 + part];
}

/// Into shared memory as bfloat16; rows that are none become zeros.
__device__ __forceinline__ void store_raw(const RawRow& raw, uint4* keys) {
  const int key = static_cast<int>(threadIdx.x) / 4;
  const int part = static_cast<int>(threadIdx.x) % 4;
  uint4* target = keys + key * kStride;
  if (!raw.valid) {
    for (int u = part; u < kUnits; u += 4) target[u] = uint4{};
    return;
  }
  target[kLatent / 8 + part] = raw.others[0];
  target[kLatent / 8 + 4 + part] = raw.others[1];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint4& codes = raw.codes[i];
    uint4 low;
    uint4 high;
    low.x = scaled_pair(codes.x & 0xFFFFU, raw.scale);
    low.y = scaled_pair(codes.x >> 16, raw.scale);
    low.z = scaled_pair(codes.y & 0xFFFFU, raw.scale);
    low.w = scaled_pair(codes.y >> 16, raw.scale);
    high.x = scaled_pair(codes.z & 0xFFFFU, raw.scale);
    high.y = scaled_pair(codes.z >> 16, raw.scale);
    high.z = scaled_pair(codes.w & 0xFFFFU, raw.scale);
    high.w = scaled_pair(codes.w >> 16, raw.scale);
    target[part * 16 + 2 * i] = low;
    target[part * 16 + 2 * i + 1] = high;
  }
}

/// Starts the copies of a tile of bfloat16 rows; rows that are none become zeros.
__device__ __forceinline__ void copy_rows(const SparseAttention& a, int64_t row, const int32_t* list,
                                          int count, uint32_t keys_address) {
  const int key = static_cast<int>(threadIdx.x) / 4;
  const bool valid = key < count;
  const std::byte* source = a.cache.base;
  if (valid) source = cache_row(a.cache, page_of(a.rows, row, list[key]), list[key] % kPageTokens);
  for (int u = static_cast<int>(threadIdx.x) % 4; u < kUnits; u += 4) {
    copy_async(keys_address + (key * kStride + u) * 16, valid ? source + u * 16 : source, valid);
  }
  commit_copies();
}

/// scores[half][key][head] of the tile: the warps share it by 16 keys and by halves of the width.
template <int kCols>
__device__ void score_tile(uint32_t keys_address, uint32_t query_address, float* scores) {
  constexpr int kHeads = kCols * 8;
  constexpr int kSteps = kWidth / 16 / 2;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int key0 = warp % 4 * 16;
  const int half = warp / 4;
  float sums[kCols][4] = {};
  // Lanes 0 - 7, 8 - 15, 16 - 23, 24 - 31 name the rows of the four 8 x 8 matrices.
  const uint32_t key_lane = keys_address + ((key0 + lane % 16) * kStride + lane / 16) * 16;
  const uint32_t query_lane = query_address + ((lane % 8) * kStride + lane / 8 % 2) * 16;
#pragma unroll 6
  for (int step = half * kSteps; step < (half + 1) * kSteps; ++step) {
    uint32_t k[4];
    load_matrices(key_lane + step * 32, k);
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
      uint32_t b0;
      uint32_t b1;
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                   : "=r"(b0), "=r"(b1)
                   : "r"(query_lane + j * 8 * kStride * 16 + step * 32));
      mma_bf16(sums[j], k[0], k[1], k[2], k[3], b0, b1);
    }
  }
  float* target = scores + half * kTile * (kHeads + 1);
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    target[(key0 + g) * (kHeads + 1) + j * 8 + 2 * t] = sums[j][0];
    target[(key0 + g) * (kHeads + 1) + j * 8 + 2 * t + 1] = sums[j][1];
    target[(key0 + g + 8) * (kHeads + 1) + j * 8 + 2 * t] = sums[j][2];
    target[(key0 + g + 8) * (kHeads + 1) + j * 8 + 2 * t + 1] = sums[j][3];
  }
}

/// Running softmax of the heads over the tiles of a group: probabilities of this tile, the factor for what
/// was summed before.
template <int kCols>
__device__ void soften_tile(const float* scores, float scale, int count, bool first_tile,
                            __nv_bfloat16* probabilities, float* largest, float* sum, float* factor) {
  constexpr int kHeads = kCols * 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int head = static_cast<int>(threadIdx.x) / 32; head < kHeads; head += kWarps) {
    float values[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int key = lane + 32 * i;
      const float whole = scores[key * (kHeads + 1) + head] + scores[(kTile + key) * (kHeads + 1) + head];
      values[i] = key < count ? __fmul_rn(whole, scale) : -INFINITY;
    }
    const float tile_largest = warp_max(fmaxf(values[0], values[1]));
    const float before = first_tile ? -INFINITY : largest[head];
    const float now = fmaxf(before, tile_largest);
    float total = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float p = expf(values[i] - now);
      probabilities[head * kProbabilityStride + lane + 32 * i] = __float2bfloat16_rn(p);
      total += p;
    }
    total = warp_sum(total);
    if (lane == 0) {
      const float shrink = expf(before - now);
      factor[head] = shrink;
      sum[head] = first_tile ? total : __fmaf_rn(sum[head], shrink, total);
      largest[head] = now;
    }
    __syncwarp();
  }
}

/// sums[dims][heads] += values^T probabilities; a warp makes 64 of the 512 dimensions.
template <int kCols>
__device__ void add_values(uint32_t keys_address, const __nv_bfloat16* probabilities, const float* factor,
                           float (&sums)[4][kCols][4]) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    const float f0 = factor[j * 8 + 2 * t];
    const float f1 = factor[j * 8 + 2 * t + 1];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i][j][0] *= f0;
      sums[i][j][1] *= f1;
      sums[i][j][2] *= f0;
      sums[i][j][3] *= f1;
    }
  }
  // Matrices in the order (keys 0-7, dims 0-7), (keys 0-7, dims 8-15), (keys 8-15, dims 0-7), (.., 8-15).
  const uint32_t lane_address =
      keys_address + ((lane % 8 + lane / 16 * 8) * kStride + warp * 8 + lane / 8 % 2) * 16;
#pragma unroll
  for (int step = 0; step < kTile / 16; ++step) {
    uint32_t b[kCols][2];
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
      const __nv_bfloat16* p = probabilities + (j * 8 + g) * kProbabilityStride + step * 16 + 2 * t;
      b[j][0] = *reinterpret_cast<const uint32_t*>(p);
      b[j][1] = *reinterpret_cast<const uint32_t*>(p + 8);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t v[4];
      load_matrices_turned(lane_address + step * 16 * kStride * 16 + i * 32, v);
#pragma unroll
      for (int j = 0; j < kCols; ++j) mma_bf16(sums[i][j], v[0], v[1], v[2], v[3], b[j][0], b[j][1]);
    }
  }
}

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
