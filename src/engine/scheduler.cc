#include "engine/scheduler.h"

#include <algorithm>

#include "base/error.h"
#include "ops/types.h"

namespace glint {

namespace {

int64_t pages_for(int64_t tokens) {
  return (tokens + ops::kPageTokens - 1) / ops::kPageTokens;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, int64_t pages) : options_(options), pages_(pages) {
  GLINT_CHECK(options.max_num_seqs >= 1 && options.max_num_batched_tokens >= options.max_num_seqs);
}

bool Scheduler::fits(int64_t tokens_max) const {
  return pages_for(tokens_max) <= pages_.total();
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  waiting_.push_back(std::move(sequence));
}

bool Scheduler::remove(uint64_t id) {
  const auto has_id = [&](const std::unique_ptr<Sequence>& sequence) { return sequence->id == id; };
  if (const auto found = std::find_if(running_.begin(), running_.end(), has_id); found != running_.end()) {
    release(**found);
    running_.erase(found);
    return true;
  }
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), has_id);
  if (found == waiting_.end()) return false;
  waiting_.erase(found);
  return true;
}

void Scheduler::release(Sequence& sequence) {
  for (const int32_t page : sequence.pages) pages_.give_back(page);
  sequence.pages.clear();
}

void Scheduler::start_waiting() {
  while (!waiting_.empty() && running() < options_.max_num_seqs) {
    Sequence& sequence = *waiting_.front();
    const int64_t wanted = pages_for(sequence.tokens_max);
    if (wanted > pages_.free()) return;
    for (int64_t i = 0; i < wanted; ++i) sequence.pages.push_back(pages_.take());
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

const std::vector<ScheduledRows>& Scheduler::schedule() {
  start_waiting();
  step_.clear();
  int64_t budget = options_.max_num_batched_tokens;
  int64_t prefills = 0;
  for (const auto& sequence : running_) {
    if (!sequence->decoding()) {
      ++prefills;
      continue;
    }
    step_.push_back({sequence.get(), 1, true});
    --budget;
  }
  for (const auto& sequence : running_) {
    if (sequence->decoding()) continue;
    if (budget == 0) break;
    const int64_t missing = sequence->length() - sequence->computed;
    const int64_t share = prefills > 1 ? std::max<int64_t>(1, budget / 2) : budget;
    const int64_t rows = std::min(missing, share);
    step_.push_back({sequence.get(), rows, rows == missing});
    budget -= rows;
    --prefills;
  }
  return step_;
}

void Scheduler::commit() {
  for (const ScheduledRows& part : step_) part.sequence->computed += part.rows;
  step_.clear();
}

std::vector<Sequence*> Scheduler::all() {
  std::vector<Sequence*> sequences;
  for (const auto& sequence : running_) sequences.push_back(sequence.get());
  for (const auto& sequence : waiting_) sequences.push_back(sequence.get());
  return sequences;
}

void describe_step(const std::vector<ScheduledRows>& rows, StepDescription& out) {
  out.clear();
  for (const ScheduledRows& part : rows) {
    out.context_max = std::max(out.context_max, part.sequence->computed + part.rows);
  }
  out.pages_stride = pages_for(out.context_max);
  for (size_t index = 0; index < rows.size(); ++index) {
    const Sequence& sequence = *rows[index].sequence;
    for (int64_t position = sequence.computed; position < sequence.computed + rows[index].rows; ++position) {
      out.tokens.push_back(sequence.tokens[static_cast<size_t>(position)]);
      out.positions.push_back(static_cast<int32_t>(position));
      out.sequences.push_back(static_cast<int32_t>(index));
    }
    if (rows[index].samples) out.logits_rows.push_back(static_cast<int32_t>(out.tokens.size()) - 1);
    const size_t start = out.pages.size();
    const auto count = std::min(static_cast<int64_t>(sequence.pages.size()), out.pages_stride);
    out.pages.insert(out.pages.end(), sequence.pages.begin(), sequence.pages.begin() + count);
    out.pages.resize(start + static_cast<size_t>(out.pages_stride), -1);
  }
}

}  // namespace glint
