// Turns a row of logits into a token, and says how likely tokens were. One object for each thread that
// samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/row_scan.h"

namespace glint {

/// The number that decides what is sampled at an output position: a function of (seed, position) alone, so
/// that a token does not depend on what ran beside it, on how often the request was interrupted, or on how
/// many numbers were drawn before.
uint64_t draw_key(uint64_t seed, int64_t position);

/// A row that has been looked at.
struct ScannedRow {
  std::span<float> logits;
  std::vector<float> peaks;  // of its blocks
  float largest = 0;
  double log_sum = 0;  // log of the sum of exp(logit - largest); set by Sampler::sum_up
};

class Sampler {
 public:
  /// `sampleable[id]`: the id stands for a token. Others, such as the padding rows of the vocabulary, are
  /// never taken. Takes all the memory that it will need.
  explicit Sampler(std::vector<bool> sampleable, Isa isa = best_isa());

  /// Looks at a row of one logit per id. Ids that are not sampleable become -inf. False if the row is of no
  /// use: a NaN or +inf among the others, or all of them -inf.
  bool scan(std::span<float> logits, ScannedRow& row);

  /// The largest logit, the lowest id among equals.
  [[nodiscard]] static TokenId best(const ScannedRow& row);

  /// The token by the request's temperature, min_p, top_k and top_p. temperature 0: best(). Otherwise
  /// softmax(logits / temperature), then, in this order, ids whose probability is below min_p (at least
  /// 1e-30) times the largest are left out, then all but the top_k most likely (lowest id first among
  /// equals), then all but the smallest set of most likely ids whose sum of share_of() reaches top_p of all;
  /// of what is left one is drawn by the race of `key` (row_scan.h). No step depends on an order of
  /// additions: a GPU takes the same token (ops/cuda/sample.h).
  TokenId take(const ScannedRow& row, const SamplingParams& params, uint64_t key);

  /// What take() has drawn from, as logits: row / temperature, -inf for what was left out. temperature 0: the
  /// row. To be called right after take() with the same row; writes over the row.
  void write_drawn_from(ScannedRow& row, const SamplingParams& params);

  /// Sets row.log_sum.
  void sum_up(ScannedRow& row);

  /// Appends a row: the token, and the `top` most likely ids (kAllLogprobs: all). With `plain` the logits
  /// themselves, else log probabilities (sum_up() first).
  void report(const ScannedRow& row, TokenId token, int32_t top, bool plain, Logprobs& out);
  /// The same with these ids in place of the most likely ones; no id twice.
  void report(const ScannedRow& row, TokenId token, const std::vector<TokenId>& ids, bool plain,
              Logprobs& out);

 private:
  void cut_top_k(int32_t top_k);
  int64_t cut_top_p(float top_p);
  int64_t gather(float least);
  void append_chosen(const ScannedRow& row, TokenId token, bool plain, Logprobs& out) const;
  void append_best(const ScannedRow& row, int64_t top, bool plain, Logprobs& out) const;

  const RowScans& scans_;
  int64_t size_;
  std::vector<TokenId> padding_;
  std::vector<float> weights_;
  std::vector<Candidate> candidates_;  // the first count_ of them, in any order
  int64_t count_ = 0;
  bool gathered_ = false;  // the candidates are all ids that are left
  TokenId only_ = -1;      // nothing else is left
  RaceCut cut_;
};

}  // namespace glint
