// Walks over one row of logits: a vocabulary is long, and everything that looks at all of it is here.
//
// Every instruction set gives the same bits: no step fuses a multiply and an add, sums run in 16 lanes whose
// order is fixed, and the exponential is a polynomial of our own. So what is sampled and reported does not
// depend on the machine, nor on how rows are spread over threads.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"

namespace glint {

/// Ids that the peaks of a row are taken over.
inline constexpr int64_t kRowBlock = 1024;

inline constexpr int64_t row_blocks(int64_t size) {
  return (size + kRowBlock - 1) / kRowBlock;
}

/// A token that may be drawn.
struct Candidate {
  int32_t id = 0;
  float weight = 0;
};

/// The winner of a race so far.
struct RaceState {
  int32_t id = -1;
  double time = 0;
};

/// A weight as a whole number, for sums that come out the same in any order and on any device:
/// round(weight * 2^34), half to even. Sums of up to 2^19 such numbers are exact.
inline double share_of(float weight) {
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest whole number
  return static_cast<double>(weight) * 0x1p34 + kRound - kRound;
}

/// What races: the ids whose weight is above `least_weight`, or equal to it with an id of at most `least_id`.
struct RaceCut {
  float least_weight = 0;
  int32_t least_id = -1;
};

struct RowScans {
  /// peaks[b]: the largest of row[1024 b, 1024 (b + 1)), -inf if there is none. False if the row holds a NaN.
  bool (*peaks)(const float* row, int64_t size, float* peaks);

  /// out[i] = exp((row[i] - largest) / temperature), 0 where that is below `floor`; `largest` is the row's.
  /// The error is below 2e-7 relative. Returns the sum (of doubles; lane i % 16 first, then the lanes in
  /// order).
  double (*weights)(const float* row, int64_t size, float largest, float temperature, float floor,
                    float* out);

  /// The sum of share_of() over a row of weights.
  double (*shares)(const float* weights, int64_t size);

  /// The ids of [0, size) with weights[i] >= least (least > 0), ascending; returns how many. `out` has room
  /// for all.
  int64_t (*gather)(const float* weights, int64_t size, float least, Candidate* out);

  /// Runs the exponential race of race_time() over all ids inside the cut; `state` holds a first contestant.
  void (*race)(const float* weights, int64_t size, uint64_t key, RaceCut cut, RaceState& state);
};

/// The walks for an instruction set (the best of the machine if not named). All give the same results.
const RowScans& row_scans(Isa isa = best_isa());

/// The id's arrival in the race of `key`: an exponential random number, a function of (key, id) alone,
/// divided by the weight. The first to arrive is each id with a probability proportional to its weight; and
/// as the numbers do not depend on the weights, two similar distributions mostly have the same winner.
double race_time(uint64_t key, int32_t id, float weight);

}  // namespace glint
