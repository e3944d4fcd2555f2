#include "ops/cuda/check.h"
#include "ops/cuda/round.h"

namespace glint::ops::cuda {

namespace {

constexpr int kThreads = 128;

unsigned blocks_for(int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

__device__ __forceinline__ int64_t index() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

__device__ __forceinline__ void note_time(const RoundOutcome& outcome, int which) {
  if (index() != 0) return;
  uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  outcome.times[which] = now;
}

__global__ void begin_kernel(RoundState state, RoundRows rows, RoundOutcome outcome) {
  note_time(outcome, 0);
  const int64_t each = 1 + state.drafts;
  const int64_t row = index();
  if (row >= state.sequences * each) return;
  const int64_t s = row / each;
  rows.tokens[row] = max(state.tokens[row], 0);
  rows.position[row] = state.position[s] + static_cast<int32_t>(row % each);
  rows.sequence[row] = static_cast<int32_t>(s);
  rows.logits_rows[row] = static_cast<int32_t>(row);
}

__global__ void take_kernel(RoundState state, RoundRows rows, RoundOutcome outcome) {
  note_time(outcome, 1);
  const int64_t s = index();
  if (s >= state.sequences) return;
  const int64_t each = 1 + state.drafts;
  int32_t* const guesses = state.tokens + s * each;
  const int32_t* const sampled = outcome.tokens + s * each;
  int32_t taken = 1;
  while (taken < each && sampled[taken - 1] >= 0 && sampled[taken - 1] == guesses[taken]) ++taken;
  const int32_t position = state.position[s];
  for (int32_t j = 0; j < each; ++j) {
    const int32_t copied = min(j, taken - 1);
    const int64_t row = s * each + j;
    rows.tokens[row] = max(sampled[copied], 0);
    rows.position[row] = position + copied;
    rows.sequence[row] = static_cast<int32_t>(s);
    rows.source[row] = static_cast<int32_t>(s * each + copied);
  }
  rows.logits_rows[s] = static_cast<int32_t>(s * each + state.drafts);
  outcome.taken[s] = taken;
  guesses[0] = max(sampled[taken - 1], 0);
  state.position[s] = position + taken;
  state.generated[s] += taken;
}

__global__ void pass_kernel(RoundState state, int64_t pass, RoundRows rows, RoundOutcome outcome) {
  const int64_t s = index();
  if (s >= state.sequences) return;
  rows.tokens[s] = max(outcome.drafts[(pass - 1) * state.sequences + s], 0);
  rows.position[s] = state.position[s] - 1 + static_cast<int32_t>(pass);
  rows.sequence[s] = static_cast<int32_t>(s);
  rows.logits_rows[s] = static_cast<int32_t>(s);
  rows.source[s] = static_cast<int32_t>(s);
}

__global__ void end_kernel(RoundState state, RoundOutcome outcome) {
  note_time(outcome, 2);
  const int64_t at = index();
  if (at >= state.sequences * state.drafts) return;
  const int64_t s = at / state.drafts;
  const int64_t draft = at % state.drafts;
  state.tokens[s * (1 + state.drafts) + 1 + draft] = outcome.drafts[draft * state.sequences + s];
}

void check_launch() {
  check(cudaGetLastError(), "launching a part of a round");
}

}  // namespace

void begin_round(const RoundState& state, const RoundRows& rows, const RoundOutcome& outcome,
                 cudaStream_t stream) {
  begin_kernel<<<blocks_for(state.sequences * (1 + state.drafts)), kThreads, 0, stream>>>(state, rows,
                                                                                          outcome);
  check_launch();
}

void take_round(const RoundState& state, const RoundRows& rows, const RoundOutcome& outcome,
                cudaStream_t stream) {
  take_kernel<<<blocks_for(state.sequences), kThreads, 0, stream>>>(state, rows, outcome);
  check_launch();
}

void next_pass(const RoundState& state, int64_t pass, const RoundRows& rows, const RoundOutcome& outcome,
               cudaStream_t stream) {
  pass_kernel<<<blocks_for(state.sequences), kThreads, 0, stream>>>(state, pass, rows, outcome);
  check_launch();
}

void end_round(const RoundState& state, const RoundOutcome& outcome, cudaStream_t stream) {
  end_kernel<<<blocks_for(state.sequences * (1 + state.drafts)), kThreads, 0, stream>>>(state, outcome);
  check_launch();
}

}  // namespace glint::ops::cuda
