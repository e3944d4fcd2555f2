#include "engine/cuda_rounds.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/integers.h"
#include "base/log.h"
#include "model/draft_round.h"

namespace glint {

namespace {

using ops::cuda::check;
using ops::cuda::RoundRows;
using ops::cuda::SampleParams;

constexpr int64_t kAlign = 256;
constexpr int64_t kInt = 4;
constexpr int64_t kRowArrays = 5;

int64_t round_up(int64_t bytes) {
  return ceil_div(bytes, kAlign) * kAlign;
}

int64_t place(int64_t& end, int64_t bytes) {
  const int64_t at = end;
  end = round_up(end + bytes);
  return at;
}

int32_t* ints(std::byte* at) {
  return reinterpret_cast<int32_t*>(at);
}

RoundRows rows_at(std::byte* at, int64_t rows) {
  int32_t* const first = ints(at);
  return {.tokens = first,
          .position = first + rows,
          .sequence = first + 2 * rows,
          .logits_rows = first + 3 * rows,
          .source = first + 4 * rows};
}

/// The device's clock is not promised to be steady.
double seconds_between(uint64_t begin_ns, uint64_t end_ns) {
  return end_ns > begin_ns ? 1e-9 * static_cast<double>(end_ns - begin_ns) : 0;
}

int64_t page_numbers(const CudaDevice& device, int64_t sequences) {
  return sequences * ceil_div(device.context_limit(), ops::kPageTokens);
}

}  // namespace

CudaRounds::Layout::Layout(int64_t sequences, int64_t drafts, int64_t page_numbers) {
  params = place(end, sequences * static_cast<int64_t>(sizeof(SampleParams)));
  tokens = place(end, sequences * (1 + drafts) * kInt);
  position = place(end, sequences * kInt);
  generated = place(end, sequences * kInt);
  counted = place(end, kInt);
  pages = place(end, page_numbers * kInt);
}

CudaRounds::OutcomeLayout::OutcomeLayout(int64_t sequences, int64_t guesses) {
  times = place(end, 3 * 8);
  taken = place(end, sequences * kInt);
  tokens = place(end, sequences * (1 + guesses) * kInt);
  drafts = place(end, sequences * guesses * kInt);
}

CudaRounds::CudaRounds(CudaDevice& device, CudaExpertLoad* load, std::function<void()> leave_step)
    : device_(device),
      load_(load),
      leave_step_(std::move(leave_step)),
      sequences_max_(device.options().drafting_max),
      drafts_max_(device.options().drafts_max),
      rows_max_(sequences_max_ * (1 + drafts_max_)),
      layout_(sequences_max_, drafts_max_, page_numbers(device, sequences_max_)),
      outcome_layout_(sequences_max_, drafts_max_),
      scratch_bytes_(ops::cuda::sample_scratch_bytes(rows_max_, device.model().config().vocab_size)),
      own_bytes_(layout_.end + outcome_layout_.end + 2 * round_up(kRowArrays * rows_max_ * kInt) +
                 scratch_bytes_ + ceil_div(device.model().config().vocab_size, int64_t{32}) * kInt),
      memory_("rounds", own_bytes_),
      sequence_sizes_(row_sizes(sequences_max_)),
      contexts_(context_sizes(device.context_limit())),
      in_{PinnedBytes(layout_.end), PinnedBytes(layout_.end)},
      out_{PinnedBytes(outcome_layout_.end), PinnedBytes(outcome_layout_.end)} {
  static_assert(kStartedMax == 2);
  if (sequence_sizes_.back() < std::min<int64_t>(sequences_max_, 128))
    sequence_sizes_.push_back(sequences_max_);
  std::byte* at = memory_.data() + layout_.end;
  device_outcome_ = at;
  at += outcome_layout_.end;
  for (RoundRows* rows : {&rows_, &drafting_rows_}) {
    *rows = rows_at(at, rows_max_);
    at += round_up(kRowArrays * rows_max_ * kInt);
  }
  scratch_ = at;
  sampleable_ = reinterpret_cast<uint32_t*>(at + scratch_bytes_);
  drafts_.reserve(static_cast<size_t>(sequences_max_ * drafts_max_));
  check(cudaMemset(memory_.data(), 0, static_cast<size_t>(own_bytes_)), "clearing the rounds' memory");
  for (cudaEvent_t& event : ended_)
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
}

CudaRounds::~CudaRounds() {
  cudaStreamSynchronize(device_.stream().get());
  for (cudaEvent_t event : ended_) cudaEventDestroy(event);
}

void CudaRounds::set_sampleable(const std::vector<bool>& sampleable) {
  use_device();
  std::vector<uint32_t> words((sampleable.size() + 31) / 32);
  for (size_t id = 0; id < sampleable.size(); ++id) words[id / 32] |= (sampleable[id] ? 1U : 0U) << id % 32;
  check(cudaMemcpy(sampleable_, words.data(), words.size() * 4, cudaMemcpyHostToDevice),
        "copying which ids are sampleable");
}

void CudaRounds::use_device() const {
  check(cudaSetDevice(device_.ordinal()), "choosing the device");
}

std::vector<int64_t> CudaRounds::draft_counts() const {
  std::vector<int64_t> counts;
  for (int64_t drafts = device_.options().drafts_vary ? 0 : drafts_max_; drafts <= drafts_max_; ++drafts)
    counts.push_back(drafts);
  return counts;
}

bool CudaRounds::takes(int64_t sequences, int64_t drafts) const {
  return sequences <= sequences_max_ && drafts <= drafts_max_;
}

CudaRounds::Shape CudaRounds::shape_of(const RoundDescription& round) const {
  const auto context = first_that_holds(contexts_, round.context_max);
  GLINT_CHECK(context && takes(round.sequences, round.drafts));
  return {.sequences = first_that_holds(sequence_sizes_, round.sequences).value_or(round.sequences),
          .drafts = round.drafts,
          .context = *context};
}

ops::cuda::RoundState CudaRounds::state(const Shape& shape) const {
  std::byte* const at = memory_.data();
  return {.sequences = shape.sequences,
          .drafts = shape.drafts,
          .tokens = ints(at + layout_.tokens),
          .position = ints(at + layout_.position),
          .generated = ints(at + layout_.generated),
          .params = reinterpret_cast<const SampleParams*>(at + layout_.params)};
}

ops::cuda::RoundOutcome CudaRounds::outcome() const {
  return {.times = reinterpret_cast<uint64_t*>(device_outcome_ + outcome_layout_.times),
          .taken = ints(device_outcome_ + outcome_layout_.taken),
          .tokens = ints(device_outcome_ + outcome_layout_.tokens),
          .drafts = ints(device_outcome_ + outcome_layout_.drafts)};
}

ops::RowMap CudaRounds::row_map(const Shape& shape, int64_t rows) const {
  return {.rows = rows,
          .pages = ints(memory_.data() + layout_.pages),
          .pages_stride = ceil_div(shape.context, ops::kPageTokens),
          .context_max = shape.context};
}

void CudaRounds::sample(const Shape& shape, ops::Floats logits, int64_t rows_each, int64_t ahead,
                        int32_t* tokens) {
  const ops::cuda::RoundState now = state(shape);
  ops::cuda::sample({.logits = logits,
                     .sampleable = sampleable_,
                     .rows_each = rows_each,
                     .params = now.params,
                     .generated = now.generated,
                     .ahead = ahead,
                     .tokens = tokens},
                    {.memory = scratch_, .rows_max = rows_max_}, device_.stream().get());
}

void CudaRounds::enqueue(const Shape& shape) {
  const ops::Arena::Scope scope(device_.arena());
  const auto now = state(shape);
  const auto result = outcome();
  const int64_t rows = shape.sequences * (1 + shape.drafts);
  cudaStream_t stream = device_.stream().get();
  ops::cuda::begin_round(now, rows_, result, stream);
  Step step{.tokens = rows_.tokens,
            .rows = row_map(shape, rows),
            .logits_rows = rows_.logits_rows,
            .logits_count = rows};
  step.rows.position = rows_.position;
  step.rows.sequence = rows_.sequence;
  device_.count_rows(ints(memory_.data() + layout_.counted));
  const StepResult forward = device_.model().forward(device_.ops(), step, device_.caches());
  device_.count_rows(nullptr);
  sample(shape, forward.logits, 1 + shape.drafts, 0, result.tokens);
  ops::cuda::take_round(now, drafting_rows_, result, stream);
  if (shape.drafts > 0) enqueue_drafts(shape, forward.final_hidden);
  ops::cuda::end_round(now, result, stream);
}

void CudaRounds::enqueue_drafts(const Shape& shape, ops::Activation final_hidden) {
  DraftRound round(device_.model(), device_.ops(), final_hidden);
  const int64_t vocab_size = device_.model().config().vocab_size;
  Step step{.tokens = drafting_rows_.tokens,
            .rows = row_map(shape, shape.sequences * (1 + shape.drafts)),
            .logits_rows = drafting_rows_.logits_rows,
            .logits_count = shape.sequences};
  step.rows.position = drafting_rows_.position;
  step.rows.sequence = drafting_rows_.sequence;
  const auto take = [&](float* logits, int64_t draft) {
    const ops::Floats rows{logits, shape.sequences, vocab_size, vocab_size};
    sample(shape, rows, 1, draft, outcome().drafts + draft * shape.sequences);
  };
  take(round.first(step, drafting_rows_.source, device_.caches()), 0);
  step.rows.rows = shape.sequences;
  for (int64_t pass = 1; pass < shape.drafts; ++pass) {
    ops::cuda::next_pass(state(shape), pass, drafting_rows_, outcome(), device_.stream().get());
    take(round.later(step, drafting_rows_.source, device_.caches()), pass);
  }
}

/// Loads every kernel of the shape.
void CudaRounds::warm_up(const Shape& shape) {
  check(cudaMemsetAsync(memory_.data(), 0, static_cast<size_t>(layout_.end), device_.stream().get()),
        "clearing the rounds' memory");
  enqueue(shape);
  device_.stream().wait();
}

void CudaRounds::capture_all(int64_t bytes_max) {
  const auto begin = std::chrono::steady_clock::now();
  GLINT_CHECK(device_.arena().used_bytes() == 0);
  for (const int64_t drafts : draft_counts()) {
    for (const int64_t sequences : sequence_sizes_) warm_up({sequences, drafts, contexts_.back()});
  }
  const int64_t free_before = free_device_bytes();
  const auto room = [&] {
    graph_bytes_ = free_before - free_device_bytes();
    return bytes() < bytes_max;
  };
  for (const int64_t context : contexts_) {
    for (const int64_t sequences : sequence_sizes_) {
      for (const int64_t drafts : draft_counts()) {
        if (!room()) break;
        const Shape shape{sequences, drafts, context};
        graphs_.emplace(shape, CapturedGraph(device_.stream().get(), [&] { enqueue(shape); }));
        device_.stream().wait();
      }
    }
  }
  room();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  log_info("Captured ", graphs_.size(), " of ",
           contexts_.size() * sequence_sizes_.size() * draft_counts().size(),
           " round shapes as CUDA graphs in ", static_cast<int64_t>(taken.count() * 1000),
           " ms: ", bytes() >> 20, " MiB of ", bytes_max >> 20, " MiB");
}

void CudaRounds::write_state(const RoundDescription& round, const Shape& shape, std::byte* host) const {
  auto* const params = reinterpret_cast<SampleParams*>(host + layout_.params);
  int32_t* const tokens = ints(host + layout_.tokens);
  const int64_t each = 1 + shape.drafts;
  *ints(host + layout_.counted) = static_cast<int32_t>(round.sequences * each);
  // What fills the shape up are copies of the last sequence: they write what it writes.
  for (int64_t s = 0; s < shape.sequences; ++s) {
    const int64_t from = std::min(s, round.sequences - 1);
    const RoundSampling& sampling = round.sampling[static_cast<size_t>(from)];
    params[s] = {.temperature = sampling.temperature,
                 .top_p = sampling.top_p,
                 .min_p = sampling.min_p,
                 .top_k = sampling.top_k,
                 .seed = sampling.seed};
    std::copy_n(round.tokens.begin() + from * each, each, tokens + s * each);
    ints(host + layout_.position)[s] = round.positions[static_cast<size_t>(from)];
    ints(host + layout_.generated)[s] = round.generated[static_cast<size_t>(from)];
  }
}

void CudaRounds::write_pages(const RoundDescription& round, const Shape& shape, std::byte* host) const {
  const int64_t stride = ceil_div(shape.context, ops::kPageTokens);
  const int64_t copied = std::min(stride, round.pages_stride);
  int32_t* const pages = ints(host + layout_.pages);
  for (int64_t s = 0; s < shape.sequences; ++s) {
    const int64_t from = std::min(s, round.sequences - 1);
    std::copy_n(round.pages.begin() + from * round.pages_stride, copied, pages + s * stride);
    std::fill_n(pages + s * stride + copied, stride - copied, -1);
  }
}

void CudaRounds::send(const std::byte* host, int64_t begin, int64_t end) {
  check(cudaMemcpyAsync(memory_.data() + begin, host + begin, static_cast<size_t>(end - begin),
                        cudaMemcpyHostToDevice, device_.stream().get()),
        "copying a round");
}

void CudaRounds::start(const RoundDescription& round) {
  GLINT_CHECK(starts_ - finishes_ < kStartedMax);
  use_device();
  leave_step_();
  const size_t turn = starts_++ % kStartedMax;
  const Shape shape = shape_of(round);
  started_[turn] = {.shape = shape, .sequences = round.sequences, .continues = round.continues};
  std::byte* const host = in_[turn].data();
  write_pages(round, shape, host);
  const int64_t end = layout_.pages + shape.sequences * ceil_div(shape.context, ops::kPageTokens) * kInt;
  if (!round.continues) write_state(round, shape, host);
  send(host, round.continues ? layout_.pages : 0, end);
  if (const auto graph = graphs_.find(shape); graph != graphs_.end()) {
    graph->second.launch(device_.stream().get());
  } else {
    enqueue(shape);
  }
  if (load_ != nullptr) load_->step_enqueued(round.sequences * (1 + shape.drafts));
  check(cudaMemcpyAsync(out_[turn].data(), device_outcome_, static_cast<size_t>(outcome_layout_.end),
                        cudaMemcpyDeviceToHost, device_.stream().get()),
        "copying a round's tokens");
  check(cudaEventRecord(ended_[turn], device_.stream().get()), "marking the end of a round");
}

RoundResult CudaRounds::finish() {
  GLINT_CHECK(finishes_ < starts_);
  use_device();
  const size_t turn = finishes_++ % kStartedMax;
  check(cudaEventSynchronize(ended_[turn]), "waiting for a round");
  const Started& round = started_[turn];
  const std::byte* const out = out_[turn].data();
  const auto numbers = [&](int64_t at, int64_t count) {
    return std::span(reinterpret_cast<const int32_t*>(out + at), static_cast<size_t>(count));
  };
  uint64_t times[3];
  std::memcpy(times, out + outcome_layout_.times, sizeof times);
  const double idle = round.continues ? seconds_between(last_end_ns_, times[0]) : 0;
  last_end_ns_ = times[2];
  const auto guesses = numbers(outcome_layout_.drafts, round.shape.drafts * round.shape.sequences);
  drafts_.clear();
  for (int64_t draft = 0; draft < round.shape.drafts; ++draft) {
    const auto first = guesses.begin() + draft * round.shape.sequences;
    drafts_.insert(drafts_.end(), first, first + round.sequences);
  }
  return {.taken = numbers(outcome_layout_.taken, round.sequences),
          .tokens = numbers(outcome_layout_.tokens, round.sequences * (1 + round.shape.drafts)),
          .drafts = drafts_,
          .model_seconds = seconds_between(times[0], times[1]),
          .drafting_seconds = seconds_between(times[1], times[2]),
          .idle_seconds = idle};
}

}  // namespace glint
