// top_k and top_p of one row, by one block: an exact choice among all ids in the order of weight (the lowest
// id first among equals).
#pragma once

#include <climits>
#include <cub/block/block_scan.cuh>

#include "ops/cuda/sample_core.cuh"

namespace glint::ops::cuda {

constexpr int kPieceIds = 4096;  // of a row, looked at by one block
constexpr int kCutThreads = 1024;

/// The highest logit of a piece.
struct Peak {
  float logit;
  int id;
  int bad;  // a NaN was there
};

constexpr int kClasses = 8;
/// Class i: weights of at least 2^-3i, the last: all. Mostly a few ids hold nearly all of the weight.
__device__ __forceinline__ float class_floor(int i) {
  return i < kClasses - 1 ? __int_as_float((127 - 3 * i) << 23) : kLeastWeight;
}

/// How many ids of a piece are in each class or above, and their shares.
struct Tally {
  uint64_t shares[kClasses];
  uint32_t counts[kClasses];

  __device__ void add(float weight) {
    if (weight == 0.0F) return;
    const uint64_t share = share_of(weight);
#pragma unroll
    for (int i = 0; i < kClasses; ++i) {
      if (weight < class_floor(i)) continue;
      shares[i] += share;
      ++counts[i];
    }
  }
  __device__ void add(const Tally& other) {
#pragma unroll
    for (int i = 0; i < kClasses; ++i) {
      shares[i] += other.shares[i];
      counts[i] += other.counts[i];
    }
  }
  __device__ void sum_over_warp() {
#pragma unroll
    for (int i = 0; i < kClasses; ++i) {
      counts[i] = __reduce_add_sync(~0U, counts[i]);
      for (int step = 16; step > 0; step /= 2) shares[i] += __shfl_xor_sync(~0U, shares[i], step);
    }
  }
};

/// What may be drawn of a row: weights above least_weight, and equal ones up to least_id.
struct RowCut {
  float largest;
  int first;  // the id that greedy takes
  bool done;  // its token is known
  float least_weight;
  int least_id;

  [[nodiscard]] __device__ bool holds(int id, float weight) const {
    return weight > least_weight || (weight == least_weight && weight > 0.0F && id <= least_id);
  }
};

constexpr int kBins = 2048;

struct Candidate {
  int id;
  float weight;
};

/// A sum in two words: shared memory adds 32 bits at once, 64 in a loop.
struct SplitSum {
  uint32_t low, high;
  __device__ void add(uint64_t amount) {
    const auto part = static_cast<uint32_t>(amount);
    const uint32_t carry = atomicAdd(&low, part) > ~part ? 1U : 0U;
    const uint32_t above = static_cast<uint32_t>(amount >> 32) + carry;
    if (above != 0) atomicAdd(&high, above);
  }
  [[nodiscard]] __device__ uint64_t value() const { return static_cast<uint64_t>(high) << 32 | low; }
};

/// Followed by as many candidates as shared memory holds.
struct CutShared {
  cub::BlockScan<uint64_t, kCutThreads>::TempStorage scan;
  SplitSum bins[kBins];
  uint64_t sum;
  uint64_t above;
  uint32_t bin;
  int listed;
  int equals;
  int last_id;
  alignas(16) Candidate list[];
};

/// The ids that come into question, all of a class: in shared memory if they fit there.
struct Candidates {
  const SampledRow& row;
  const Tally* tallies;
  int pieces;
  int least_class;
  float largest;
  bool listed;
  CutShared& s;

  /// body(id, weight) for each, by some thread, in any order.
  template <class Body>
  __device__ void visit(const Body& body) const {
    if (listed) {
      for (int i = static_cast<int>(threadIdx.x); i < s.listed; i += kCutThreads)
        body(s.list[i].id, s.list[i].weight);
      return;
    }
    for (int piece = 0; piece < pieces; ++piece) {
      if (tallies[piece].counts[least_class] == 0) continue;
      const int end = min((piece + 1) * kPieceIds, row.size);
      for (int id = piece * kPieceIds + static_cast<int>(threadIdx.x); id < end; id += kCutThreads) {
        const float weight = row.weight(id, largest);
        if (weight > 0.0F && weight >= class_floor(least_class)) body(id, weight);
      }
    }
  }
};

struct Chosen {
  uint32_t key;
  uint64_t above;  // the amounts of all larger keys
};

/// The largest key at which the amounts of the keys from the top on reach `wanted`; key(id, weight, k) is
/// false for what does not count.
template <class Key, class Amount>
__device__ Chosen choose(const Candidates& candidates, uint64_t wanted, const Key& key,
                         const Amount& amount) {
  CutShared& s = candidates.s;
  uint32_t prefix = 0;
  uint32_t known = 0;
  uint64_t above = 0;
  for (int shift = 21; shift >= 0; shift = shift == 21 ? 10 : shift == 10 ? 0 : -1) {
    const uint32_t digits = shift == 0 ? 1023U : 2047U;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kCutThreads) s.bins[i] = {};
    __syncthreads();
    candidates.visit([&](int id, float weight) {
      uint32_t k = 0;
      if (!key(id, weight, k) || (k & known) != prefix) return;
      s.bins[k >> shift & digits].add(amount(weight));
    });
    __syncthreads();
    const int high = kBins - 1 - 2 * static_cast<int>(threadIdx.x);
    const uint64_t near = s.bins[high].value();
    const uint64_t far = s.bins[high - 1].value();
    uint64_t before = 0;
    cub::BlockScan<uint64_t, kCutThreads>(s.scan).ExclusiveSum(near + far, before);
    before += above;
    if (before < wanted && before + near + far >= wanted) {
      const bool in_near = before + near >= wanted;
      s.bin = static_cast<uint32_t>(in_near ? high : high - 1);
      s.above = in_near ? before : before + near;
    }
    __syncthreads();
    prefix |= s.bin << shift;
    known |= digits << shift;
    above = s.above;
  }
  return {prefix, above};
}

/// The `wanted`-th lowest id of this weight.
__device__ inline int last_of_equals(const Candidates& candidates, float of_weight, uint64_t wanted) {
  CutShared& s = candidates.s;
  __syncthreads();
  if (threadIdx.x == 0) s.equals = s.last_id = 0;
  __syncthreads();
  candidates.visit([&](int id, float weight) {
    if (weight != of_weight) return;
    atomicAdd(&s.equals, 1);
    atomicMax(&s.last_id, id);
  });
  __syncthreads();
  if (wanted >= static_cast<uint64_t>(s.equals)) return s.last_id;  // mostly there is one
  const auto by_id = [of_weight](int id, float weight, uint32_t& k) {
    k = ~static_cast<uint32_t>(id);
    return weight == of_weight;
  };
  const Chosen last = choose(candidates, wanted, by_id, [](float) { return uint64_t{1}; });
  return static_cast<int>(~last.key);
}

/// The cut after the ids of which `amount` first reaches `wanted`.
template <class Amount>
__device__ void cut_at(const Candidates& candidates, uint64_t wanted, const Amount& amount, RowCut& cut) {
  const auto by_weight = [](int, float weight, uint32_t& k) {
    k = __float_as_uint(weight);
    return true;
  };
  const Chosen at = choose(candidates, wanted, by_weight, amount);
  cut.least_weight = __uint_as_float(at.key);
  const uint64_t each = amount(cut.least_weight);
  const uint64_t equals = (wanted - at.above + each - 1) / each;
  cut.least_id = last_of_equals(candidates, cut.least_weight, equals);
}

/// The shares of what the cut leaves.
__device__ inline uint64_t shares_inside(const Candidates& candidates, const RowCut& cut) {
  CutShared& s = candidates.s;
  __syncthreads();
  if (threadIdx.x == 0) s.sum = 0;
  __syncthreads();
  uint64_t sum = 0;
  candidates.visit([&](int id, float weight) {
    if (cut.holds(id, weight)) sum += share_of(weight);
  });
  if (sum > 0) atomicAdd(reinterpret_cast<unsigned long long*>(&s.sum), static_cast<unsigned long long>(sum));
  __syncthreads();
  return s.sum;
}

__device__ inline uint64_t wanted_share(uint64_t total, float top_p) {
  const double wanted = ceil(static_cast<double>(total) * static_cast<double>(top_p));
  return max(uint64_t{1}, static_cast<uint64_t>(wanted));
}

__device__ inline Tally tally_of_row(const Tally* tallies, int pieces) {
  __shared__ Tally whole;
  if (threadIdx.x < 32) {
    Tally sum{};
    for (int piece = static_cast<int>(threadIdx.x); piece < pieces; piece += 32) sum.add(tallies[piece]);
    sum.sum_over_warp();
    if (threadIdx.x == 0) whole = sum;
  }
  __syncthreads();
  return whole;
}

__device__ inline void list_candidates(Candidates& candidates) {
  CutShared& s = candidates.s;
  if (threadIdx.x == 0) s.listed = 0;
  __syncthreads();
  candidates.visit([&s](int id, float weight) {
    const int at = atomicAdd(&s.listed, 1);
    s.list[at] = {id, weight};
  });
  __syncthreads();
  candidates.listed = true;
}

/// Applies top_k, then top_p, to `cut`, which has the row's peak; `list_max` candidates fit into shared
/// memory. False if one id is left: the first. The whole block calls it.
__device__ inline bool find_cut(const SampledRow& row, const Tally* tallies, int pieces, int list_max,
                                RowCut& cut) {
  extern __shared__ __align__(16) std::byte shared[];
  CutShared& s = *reinterpret_cast<CutShared*>(shared);
  const Tally all = tally_of_row(tallies, pieces);
  const auto top_k = static_cast<uint64_t>(max(row.params.top_k, 0));
  const bool by_count = top_k > 1 && all.counts[kClasses - 1] > top_k;
  const bool by_share = row.params.top_p < 1.0F;
  uint64_t wanted = wanted_share(all.shares[kClasses - 1], row.params.top_p);
  if (!by_count && (!by_share || wanted <= kShareOfOne)) return !by_share;
  int least_class = 0;
  while (least_class < kClasses - 1 &&
         (by_count ? all.counts[least_class] < top_k : all.shares[least_class] < wanted))
    ++least_class;
  Candidates candidates{row, tallies, pieces, least_class, cut.largest, false, s};
  if (all.counts[least_class] <= static_cast<uint32_t>(list_max)) list_candidates(candidates);
  if (by_count)
    cut_at(
        candidates, top_k, [](float) { return uint64_t{1}; }, cut);
  if (!by_share) return true;
  if (by_count) wanted = wanted_share(shares_inside(candidates, cut), row.params.top_p);
  if (wanted <= kShareOfOne) return false;
  cut_at(
      candidates, wanted, [](float weight) { return share_of(weight); }, cut);
  return true;
}

}  // namespace glint::ops::cuda
