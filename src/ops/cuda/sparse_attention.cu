// Sparse attention on the tensor cores. A block takes up to 32 heads of one row and some of its groups of 128
// positions, whose rows it gathers through a ring of tiles in shared memory.
#include <algorithm>

#include "ops/cuda/check.h"
#include "ops/cuda/overlap.cuh"
#include "ops/cuda/sparse_attention.h"
#include "ops/cuda/sparse_attention_merge.cuh"
#include "ops/cuda/sparse_attention_queries.cuh"
#include "ops/cuda/sparse_attention_ring.cuh"

namespace glint::ops::cuda {

namespace {

// Shared memory of a block: the ring, the queries, what Softmax names, and the places of the block's rows.
template <int kCols, bool kFp8>
struct SharedLayout {
  using Form = RowForm<kFp8>;
  static constexpr int kHeads = kCols * 8;
  static constexpr int kStages = !kFp8 && kCols == 1 ? 5 : 4;  // of half a tile
  static constexpr int kBlocksPerMultiprocessor = kFp8 && kCols == 1 ? 2 : 1;
  using Rows = Ring<kFp8, kStages>;
  static constexpr int kQuery = kStages * Rows::kStageBytes;
  static constexpr int kScores = kQuery + kHeads * kQueryStride;
  static constexpr int kProbabilities = kScores + 2 * kHeads * kScoreStride * 4;
  static constexpr int kFactor = kProbabilities + Form::kScaleBlocks * kHeads * kProbabilityStride * 2;
  static constexpr int kScaleLargest = kFactor + Form::kScaleBlocks * kHeads * 4;
  static constexpr int kEnds = kScaleLargest + kHeads * kBlocks * 4;
  static constexpr int kInverse = kEnds + kHeads * 8;
  static constexpr int kPlaces = kInverse + kHeads * 4;
  static constexpr int64_t bytes(int64_t places) { return kPlaces + places * 8; }
  static_assert(kPlaces % 8 == 0);
};

// kSplit: each group's result goes to `pieces`; otherwise the block merges all of the row's groups.
template <int kCols, bool kFp8, bool kSplit>
__global__ void __launch_bounds__(kThreads, SharedLayout<kCols, kFp8>::kBlocksPerMultiprocessor)
    attend_kernel(SparseAttention a, Pieces pieces) {
  using Layout = SharedLayout<kCols, kFp8>;
  constexpr int kHeads = Layout::kHeads;
  constexpr int kStages = Layout::kStages;
  extern __shared__ __align__(128) std::byte shared[];
  const Softmax softmax{.scores = reinterpret_cast<float*>(shared + Layout::kScores),
                        .probabilities = reinterpret_cast<uint16_t*>(shared + Layout::kProbabilities),
                        .factor = reinterpret_cast<float*>(shared + Layout::kFactor),
                        .scale_largest = reinterpret_cast<float*>(shared + Layout::kScaleLargest),
                        .ends = reinterpret_cast<float2*>(shared + Layout::kEnds)};
  auto* inverse = reinterpret_cast<float*>(shared + Layout::kInverse);
  auto* places = reinterpret_cast<const std::byte**>(shared + Layout::kPlaces);
  if constexpr (kSplit) let_next_start();
  const Share share = share_of(a);
  const int64_t head0 = static_cast<int64_t>(blockIdx.y) * kHeads;
  const int live_heads = static_cast<int>(min(static_cast<int64_t>(kHeads), a.heads - head0));
  const Ring<kFp8, kStages> ring{shared_address(shared)};
  find_places(a, share, places);
  RawQueries<kCols> queries;
  load_queries<kCols>(static_cast<const __nv_bfloat16*>(a.q.data) + share.row * a.q.stride + head0 * kWidth,
                      live_heads, queries);
  if (share.tiles <= 0) return;
  __syncthreads();
  for (int half = 0; half < kStages - 2; ++half) ring.start(half, share, places);
  store_queries<kCols, kFp8>(queries, shared + Layout::kQuery, inverse);

  const int t = static_cast<int>(threadIdx.x % 4);
  float whole[kSplit ? 1 : 4][kSplit ? 1 : kCols][4] = {};
  float2 whole_ends[kCols][2];
#pragma unroll
  for (int j = 0; j < kCols; ++j) whole_ends[j][0] = whole_ends[j][1] = {-INFINITY, 0};
  float sums[4][kCols][4];
  for (int tile = 0; tile < share.tiles; ++tile) {
    const bool first_tile = tile % kTilesPerGroup == 0;
    if (first_tile) clear_sums(sums);
    wait_for_copies<kStages - 4>();
    __syncthreads();
    ring.start(2 * tile + kStages - 2, share, places);
    ring.start(2 * tile + kStages - 1, share, places);
    const TileRows keys{shared + 2 * tile % kStages * Layout::Rows::kStageBytes,
                        shared + (2 * tile + 1) % kStages * Layout::Rows::kStageBytes};
    score_tile<kCols, kFp8>(keys, ring.stages + Layout::kQuery, inverse, softmax);
    __syncthreads();
    soften_tile<kCols, kFp8>(keys, a.scale, share.count - share.first(tile), first_tile, softmax);
    __syncthreads();
    add_values<kCols, kFp8>(keys, softmax, sums);
    if (first_tile && tile + 1 < share.tiles) continue;
    finish_sums<kCols, kFp8>(softmax, sums);
    if constexpr (kSplit) {
      const int64_t piece_groups = (a.selection.lists.cols + kGroup - 1) / kGroup;
      const int64_t piece = (share.row * a.heads + head0) * piece_groups + share.first(tile) / kGroup;
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int head = j * 8 + 2 * t + e % 2;
          if (head >= live_heads) continue;
          float* out = pieces.o + (piece + head * piece_groups) * kLatent;
#pragma unroll
          for (int i = 0; i < 4; i += kFp8 ? 2 : 1) {
            if constexpr (kFp8) {
              *reinterpret_cast<float2*>(out + value_of<true>(i, e)) = {sums[i][j][e], sums[i + 1][j][e]};
            } else {
              out[value_of<false>(i, e)] = sums[i][j][e];
            }
          }
        }
      }
      const int head = static_cast<int>(threadIdx.x);
      if (head < live_heads) pieces.ends[piece + head * piece_groups] = softmax.ends[head];
    } else {
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float keep;
          float take;
          merge_factors(softmax.ends[j * 8 + 2 * t + e], whole_ends[j][e], keep, take);
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
    auto* o = static_cast<__nv_bfloat16*>(a.o.data) + share.row * a.o.stride + head0 * kLatent;
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int head = j * 8 + 2 * t + e % 2;
        if (head >= live_heads) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          o[head * kLatent + value_of<kFp8>(i, e)] =
              __float2bfloat16_rn(__fdiv_rn(whole[i][j][e], whole_ends[j][e % 2].y));
        }
      }
    }
  }
}

constexpr int64_t kMultiprocessors = 132;  // of an H200

int64_t head_groups(int64_t heads) {
  return (heads + kHeadsMax - 1) / kHeadsMax;
}
/// Steps of up to so many rows are split: those whose blocks would leave half of the machine idle. (For more
/// the merging costs what is won.)
int64_t split_rows_max(int64_t heads) {
  return std::max<int64_t>(1, kMultiprocessors / 2 / head_groups(heads));
}
int64_t group_count(const SparseAttention& a) {
  return (a.selection.lists.cols + kGroup - 1) / kGroup;
}
/// Blocks that share a row: as many as make the fewest groups, and one for the start, pass one after another
/// where `places` blocks run at once.
int64_t ranks_of(const SparseAttention& a, int64_t places) {
  const int64_t groups = group_count(a);
  const int64_t blocks = a.q.rows * head_groups(a.heads);
  if (a.q.rows > split_rows_max(a.heads)) return 1;
  const auto cost = [&](int64_t ranks) {
    return (blocks * ranks + places - 1) / places * ((groups + ranks - 1) / ranks + 1);
  };
  int64_t best = 1;
  for (int64_t ranks = 2; ranks <= groups; ++ranks) {
    if (cost(ranks) < cost(best)) best = ranks;
  }
  return best;
}

template <int kCols, bool kFp8>
void launch(const SparseAttention& a, const Pieces& pieces, cudaStream_t stream) {
  using Layout = SharedLayout<kCols, kFp8>;
  const auto rows = static_cast<unsigned>(a.q.rows);
  const auto heads = static_cast<unsigned>((a.heads + kCols * 8 - 1) / (kCols * 8));
  const int64_t groups = group_count(a);
  const int64_t ranks = ranks_of(a, kMultiprocessors * Layout::kBlocksPerMultiprocessor);
  const auto bytes = static_cast<size_t>(Layout::bytes((groups + ranks - 1) / ranks * kGroup));
  if (ranks == 1) {
    attend_kernel<kCols, kFp8, false><<<dim3(rows, heads), kThreads, bytes, stream>>>(a, pieces);
    check(cudaGetLastError(), "launching attend");
    return;
  }
  attend_kernel<kCols, kFp8, true>
      <<<dim3(rows, heads, static_cast<unsigned>(ranks)), kThreads, bytes, stream>>>(a, pieces);
  check(cudaGetLastError(), "launching attend");
  launch_early(merge_kernel, dim3(rows, static_cast<unsigned>(a.heads)), kLatent / 4, 0, stream,
               "launching the merging of attention", a, pieces, static_cast<int>(groups));
}

template <int kCols>
void launch(const SparseAttention& a, const Pieces& pieces, cudaStream_t stream) {
  if (a.cache.format == CacheFormat::fp8_latent) {
    launch<kCols, true>(a, pieces, stream);
  } else {
    launch<kCols, false>(a, pieces, stream);
  }
}

template <int kCols, bool kFp8>
void prepare() {
  for (const void* kernel : {reinterpret_cast<const void*>(attend_kernel<kCols, kFp8, true>),
                             reinterpret_cast<const void*>(attend_kernel<kCols, kFp8, false>)}) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(SharedLayout<kCols, kFp8>::bytes(kListMax))),
          "raising a kernel's shared memory");
  }
}

}  // namespace

void prepare_attention() {
  prepare<1, false>();
  prepare<1, true>();
  prepare<2, false>();
  prepare<2, true>();
  prepare<4, false>();
  prepare<4, true>();
  prepare_attention_plain();
}

bool has_tensor_core_form(const SparseAttention& a, ComputeDType dtype) {
  return dtype == ComputeDType::bfloat16 && a.cache.width == kWidth && a.kv_lora == kLatent &&
         a.cache.format != CacheFormat::float32 && a.selection.lists.cols <= kListMax;
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
  const Pieces pieces{scratch, reinterpret_cast<float2*>(scratch + pieces_count * kLatent)};
  if (a.heads <= 8) {
    launch<1>(a, pieces, stream);
  } else if (a.heads <= 16) {
    launch<2>(a, pieces, stream);
  } else {
    launch<4>(a, pieces, stream);
  }
}

}  // namespace glint::ops::cuda
