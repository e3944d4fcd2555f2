// Where the rows of a block's positions lie, and the ring of tiles that they are gathered into.
#pragma once

#include "ops/cuda/sparse_attention_tiles.cuh"

namespace glint::ops::cuda {

/// What a block works on: groups rank, rank + ranks, ... of its row.
struct Share {
  int64_t row;
  int rank, ranks;
  int count;   // positions of the row
  int groups;  // of the row
  int tiles;   // of this block

  /// The list's index of this block's tile.
  __device__ int first(int tile) const {
    return (rank + tile / kTilesPerGroup * ranks) * kGroup + tile % kTilesPerGroup * kTile;
  }
};

__device__ __forceinline__ Share share_of(const SparseAttention& a) {
  Share s{.row = blockIdx.x, .rank = static_cast<int>(blockIdx.z), .ranks = static_cast<int>(gridDim.z)};
  s.count = a.selection.count[s.row];
  s.groups = (s.count + kGroup - 1) / kGroup;
  s.tiles = (s.groups - s.rank + s.ranks - 1) / s.ranks * kTilesPerGroup;
  if (s.tiles > 0 && s.first(s.tiles - 1) >= s.count) --s.tiles;
  return s;
}

/// Where the rows of a block's groups lie. Lists are read before their length is known, and one pass serves
/// all groups: the loads of a row wait for two others, not for each other.
__device__ __forceinline__ void find_places(const SparseAttention& a, const Share& share,
                                            const std::byte** places) {
  const int32_t* list = a.selection.lists.data + share.row * a.selection.lists.cols;
  const int32_t* pages = a.rows.pages + a.rows.sequence[share.row] * a.rows.pages_stride;
  const int cols = static_cast<int>(a.selection.lists.cols);
  const int mine = ((cols + kGroup - 1) / kGroup - share.rank + share.ranks - 1) / share.ranks * kGroup;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < mine; i += kThreads) {
    const int at = share.first(i / kTile) + i % kTile;
    const int32_t position = at < cols ? list[at] : 0;
    if (at < share.count) {
      places[i] = cache_row(a.cache, pages[position / kPageTokens], position % kPageTokens);
    }
  }
}

/// The ring of half tiles. All warps fill it, four rows each; each half is a group of copies.
template <bool kFp8, int kStages>
struct Ring {
  using Form = RowForm<kFp8>;
  static constexpr int kStageBytes = kHalfTile * Form::kStride;

  uint32_t stages;  // shared address

  /// Starts the copies of a half, if there is one. What is behind the end of the list is the last row again:
  /// its probability is zero.
  __device__ __forceinline__ void start(int half, const Share& share, const std::byte* const* places) const {
    if (half < 2 * share.tiles) {
      constexpr int kRows = kHalfTile / kWarps;
      const int lane = static_cast<int>(threadIdx.x % 32);
      const int row = static_cast<int>(threadIdx.x / 32) * kRows;
      const int count = share.count - share.first(half / 2) - half % 2 * kHalfTile;  // may be negative
      const std::byte* source[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        source[i] = places[half * kHalfTile + min(row + i, count - 1)] + lane * 16;
      }
      const uint32_t target =
          stages + static_cast<uint32_t>(half % kStages * kStageBytes + row * Form::kStride + lane * 16);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int at = 0; at < Form::kBytes; at += 512) {
          if (at + 512 <= Form::kBytes || at + lane * 16 < Form::kBytes)
            copy_async(target + i * Form::kStride + at, source[i] + at, true);
        }
      }
    }
    commit_copies();
  }
};

}  // namespace glint::ops::cuda
