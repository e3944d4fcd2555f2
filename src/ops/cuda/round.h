// The small steps between the parts of a round (engine/round.h): where its rows stand, which drafts were
// confirmed, where the drafting rows stand. All numbers are on the device and stay there from round to round.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/sample.h"

namespace glint::ops::cuda {

/// Where each of `sequences` stands; it has rows_each = 1 + drafts rows.
struct RoundState {
  int64_t sequences = 0;
  int64_t drafts = 0;
  int32_t* tokens = nullptr;             // [sequences][1 + drafts] the last token, then guesses (-1: none)
  int32_t* position = nullptr;           // [sequences] of the last token
  int32_t* generated = nullptr;          // [sequences] output tokens so far
  const SampleParams* params = nullptr;  // [sequences]
};

/// Rows as the model takes them.
struct RoundRows {
  int32_t* tokens = nullptr;       // [rows]
  int32_t* position = nullptr;     // [rows]
  int32_t* sequence = nullptr;     // [rows]
  int32_t* logits_rows = nullptr;  // those whose logits are wanted
  int32_t* source = nullptr;       // of drafting rows: see DraftRound
};

/// What the host reads after a round.
struct RoundOutcome {
  uint64_t* times = nullptr;  // [3] nanoseconds of the device's clock: begin, tokens taken, end
  int32_t* taken = nullptr;   // [sequences]
  int32_t* tokens = nullptr;  // [sequences][1 + drafts]
  int32_t* drafts = nullptr;  // [drafts][sequences]
};

/// The rows of every sequence's last token and guesses: row s * (1 + drafts) + j. All logits are wanted.
void begin_round(const RoundState& state, const RoundRows& rows, const RoundOutcome& outcome,
                 cudaStream_t stream);

/// outcome.tokens have been sampled: counts what each sequence takes, moves it on, and places the rows of the
/// first drafting pass. Rows behind the last taken token are copies of its row.
void take_round(const RoundState& state, const RoundRows& rows, const RoundOutcome& outcome,
                cudaStream_t stream);

/// Draft `pass` - 1 has been sampled: places one row a sequence for drafting pass `pass` (1 to drafts - 1).
void next_pass(const RoundState& state, int64_t pass, const RoundRows& rows, const RoundOutcome& outcome,
               cudaStream_t stream);

/// The drafts become the sequences' guesses.
void end_round(const RoundState& state, const RoundOutcome& outcome, cudaStream_t stream);

}  // namespace glint::ops::cuda
