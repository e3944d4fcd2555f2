#include "engine/scheduler.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/types.h"

namespace glint {

namespace {

constexpr int64_t kPage = ops::kPageTokens;
/// hold_pages() is asked for fewer tokens than so many times one more than there are drafts.
constexpr int64_t kHeldAheadPerDraft = 3;

/// Where a sequence belongs in a list.
template <class List>
auto place_of(List& list, const Sequence& arrival) {
  return std::find_if(list.begin(), list.end(),
                      [&arrival](const auto& sequence) { return arrival.before(*sequence); });
}

/// Of the sequence's next `rows`, those that report on the prompt.
int64_t scored_rows(const Sequence& sequence, int64_t rows) {
  if (!sequence.sampling.prompt_logprobs) return 0;
  const int64_t begin = std::max(sequence.computed, sequence.prompt_scored);
  return std::max<int64_t>(0, std::min(sequence.computed + rows, sequence.prompt_tokens - 1) - begin);
}

}  // namespace

int64_t Scheduler::pages_for(int64_t tokens) {
  return (tokens + kPage - 1) / kPage;
}

int64_t ScheduledRows::logits_rows() const {
  const int64_t sampled = samples ? 1 + static_cast<int64_t>(sequence->drafts.size()) : 0;
  return scored_rows(*sequence, rows) + sampled;
}

Scheduler::Scheduler(const SchedulerOptions& options, int64_t pages, PageTier* tier)
    : options_(options), pool_(pages), tier_(options.prefix_caching ? tier : nullptr) {
  GLINT_CHECK(options.max_num_seqs >= 1 &&
              options.max_num_batched_tokens >= options.max_num_seqs * (1 + options.num_speculative_tokens) &&
              options.prompt_logprob_rows >= 1);
  step_.reserve(static_cast<size_t>(options.max_num_seqs));
  if (tier_ == nullptr) return;
  copies_.resize(static_cast<size_t>(pages));
  storing_.reserve(static_cast<size_t>(pages));
  events_.reserve(static_cast<size_t>(pages));
}

bool Scheduler::fits(int64_t tokens_max) const {
  return pages_for(tokens_max) <= pool_.total();
}

int64_t Scheduler::tokens_ahead(const Sequence& sequence) const {
  return std::min(sequence.tokens_max, sequence.length() + 2 * options_.num_speculative_tokens);
}

void Scheduler::prepare(Sequence& sequence) const {
  const auto pages = static_cast<size_t>(
      pages_for(sequence.tokens_max + kHeldAheadPerDraft * (1 + options_.num_speculative_tokens)));
  sequence.pages.reserve(pages);
  sequence.drafts.reserve(static_cast<size_t>(options_.num_speculative_tokens));
  if (!options_.prefix_caching) return;
  sequence.hashes.reserve(pages);
  if (const int64_t full = sequence.length() / kPage; full > 0) page_hash(sequence, full - 1);
}

void Scheduler::add(SequenceList& from, SequenceList::iterator sequence) {
  waiting_tokens_ += (*sequence)->length();
  waiting_.splice(place_of(waiting_, **sequence), from, sequence);
}

bool Scheduler::remove(uint64_t id, SequenceList& ended) {
  for (Sequences* list : {&running_, &waiting_}) {
    const auto found =
        std::find_if(list->begin(), list->end(), [id](const auto& sequence) { return sequence->id == id; });
    if (found == list->end()) continue;
    let_go(**found);
    if (list == &waiting_) waiting_tokens_ -= (*found)->length();
    ended.splice(ended.end(), *list, found);
    return true;
  }
  return false;
}

void Scheduler::let_go(Sequence& sequence) {
  // From the end: of a chain of kept pages the leaves are to leave first.
  if (sequence.restoring()) cancel_loads(sequence, 0);
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page) release_or_leave(*page);
  sequence.pages.clear();
  sequence.restore_pending = 0;
  sequence.pages_published = 0;
  sequence.computed = 0;
  sequence.drafts.clear();
}

const std::vector<ScheduledRows>& Scheduler::schedule() {
  step_.clear();
  preempted_ = false;
  if (tier_ != nullptr) take_tier_events();
  budget_ = static_cast<double>(options_.max_num_batched_tokens);
  score_budget_ = options_.prompt_logprob_rows;
  schedule_decodes();
  schedule_prompts();
  // Whoever was just preempted must not be readmitted at once for the pages that it gave up.
  if (!preempted_) admit_waiting();
  extend_prompts();
  return step_;
}

const std::vector<ScheduledRows>& Scheduler::schedule_decodes_alone() {
  step_.clear();
  for (const auto& sequence : running_) {
    if (!sequence->decoding() || sequence->restoring()) continue;
    step_.push_back({sequence.get(), 1 + static_cast<int64_t>(sequence->drafts.size()), true, true});
  }
  return step_;
}

bool Scheduler::wants_a_look() const {
  return (preempted_ && !waiting_.empty()) ||
         std::ranges::any_of(running_, [](const auto& sequence) { return sequence->restoring(); });
}

bool Scheduler::hold_pages(int64_t tokens) {
  for (const ScheduledRows& part : step_) {
    std::vector<int32_t>& pages = part.sequence->pages;
    while (static_cast<int64_t>(pages.size()) < pages_for(part.sequence->length() + tokens)) {
      if (pool_.available() == 0) return false;
      pages.push_back(pool_.take());
    }
  }
  return true;
}

void Scheduler::schedule_decodes() {
  // Preemption takes from the young end and this walk comes from the old end: they meet, they do not cross.
  for (auto it = running_.begin(); it != running_.end(); ++it) {
    Sequence& sequence = **it;
    if (!sequence.decoding() || sequence.restoring()) continue;
    const auto rows = 1 + static_cast<int64_t>(sequence.drafts.size());
    if (!reserve(sequence, tokens_ahead(sequence))) return;
    step_.push_back({&sequence, rows, true, true});
    budget_ -= static_cast<double>(rows);
  }
}

void Scheduler::schedule_prompts() {
  int64_t prompts = std::count_if(running_.begin(), running_.end(),
                                  [](const auto& s) { return !s->decoding() && !s->restoring(); });
  const int64_t could_join = running() < options_.max_num_seqs ? waiting() : 0;
  for (auto it = running_.begin(); it != running_.end() && budget_ >= 1; ++it) {
    if ((*it)->decoding() || (*it)->restoring()) continue;
    --prompts;
    const size_t before = running_.size();
    add_prompt(**it, prompts + could_join);
    if (running_.size() != before) return;  // someone was preempted; the rest waits for the next step
  }
}

void Scheduler::extend_prompts() {
  // What was kept for others and not taken by them.
  for (ScheduledRows& part : step_) {
    if (part.samples || budget_ < 1) continue;
    Sequence& sequence = *part.sequence;
    const int64_t scored = scored_rows(sequence, part.rows);
    const int64_t rows =
        prompt_rows(sequence, static_cast<double>(part.rows) + budget_, scored + score_budget_);
    const bool reaches_end = rows == sequence.length() - sequence.computed;
    const int64_t tokens = reaches_end ? tokens_ahead(sequence) : sequence.computed + rows;
    if (rows <= part.rows ||
        pages_for(tokens) - static_cast<int64_t>(sequence.pages.size()) > pool_.available())
      continue;
    reserve(sequence, tokens);
    budget_ -= static_cast<double>(rows - part.rows);
    score_budget_ -= scored_rows(sequence, rows) - scored;
    part.rows = rows;
    part.samples = reaches_end;
  }
}

int64_t Scheduler::prompt_rows(const Sequence& sequence, double share, int64_t scored) const {
  int64_t missing = sequence.length() - sequence.computed;
  if (const int64_t wanted = scored_rows(sequence, missing); wanted > scored) {
    missing = std::max<int64_t>(0, sequence.prompt_scored - sequence.computed) + scored;
    if (missing == 0) return 0;
  }
  double cost = 1;
  if (options_.context_cost_tokens > 0) {
    cost += static_cast<double>(sequence.computed) / options_.context_cost_tokens;
  }
  return std::min(missing, std::max<int64_t>(1, static_cast<int64_t>(share / cost)));
}

void Scheduler::add_prompt(Sequence& sequence, int64_t others) {
  const double share = others > 0 ? budget_ / 2 : budget_;
  const int64_t rows = prompt_rows(sequence, share, score_budget_);
  if (rows == 0) return;
  const bool reaches_end = rows == sequence.length() - sequence.computed;
  if (!reserve(sequence, reaches_end ? tokens_ahead(sequence) : sequence.computed + rows)) return;
  step_.push_back({&sequence, rows, reaches_end, false});
  budget_ -= static_cast<double>(rows);
  score_budget_ -= scored_rows(sequence, rows);
}

bool Scheduler::reserve(Sequence& sequence, int64_t tokens) {
  while (static_cast<int64_t>(sequence.pages.size()) < pages_for(tokens)) {
    if (pool_.available() > 0) {
      sequence.pages.push_back(pool_.take());
      continue;
    }
    if (reclaim()) continue;
    const auto youngest = std::prev(running_.end());
    const bool itself = youngest->get() == &sequence;
    preempt(youngest);
    if (itself) return false;
  }
  return true;
}

void Scheduler::preempt(Sequences::iterator victim) {
  // Its rows of this step, if it had any, do not run.
  std::erase_if(step_, [&](const ScheduledRows& part) { return part.sequence == victim->get(); });
  let_go(**victim);
  waiting_tokens_ += (*victim)->length();
  waiting_.splice(place_of(waiting_, **victim), running_, victim);
  preempted_ = true;
  ++counts_.preemptions;
}

void Scheduler::admit_waiting() {
  for (auto it = waiting_.begin();
       it != waiting_.end() && running() < options_.max_num_seqs && budget_ >= 1;) {
    const auto candidate = it++;
    Sequence& sequence = **candidate;
    if (try_admit(candidate)) {
      const auto others = static_cast<int64_t>(std::distance(it, waiting_.end()));
      if (!sequence.restoring()) add_prompt(sequence, running() < options_.max_num_seqs ? others : 0);
      for (const auto& older : waiting_) {
        if (older->before(sequence)) ++older->passed_by;
      }
      continue;
    }
    if (sequence.passed_by >= kPassesMax) return;
  }
}

bool Scheduler::try_admit(Sequences::iterator candidate) {
  Sequence& sequence = **candidate;
  const int64_t found = attach_prefix(sequence);
  // Room for the whole prompt and the first token, so that a start is not followed by a preemption at once.
  const int64_t wanted = pages_for(std::max(sequence.length() + 1, tokens_ahead(sequence))) - found;
  if (wanted > pool_.available() && wanted <= pool_.available() + reclaimable()) {
    while (wanted > pool_.available() && reclaim()) {
    }
  }
  if (wanted > pool_.available() || restored_by_another(sequence)) {
    let_go(sequence);
    return false;
  }
  sequence.computed = found * kPage;
  if (options_.prefix_caching && !sequence.internal) {
    counts_.prefix_queries_tokens += static_cast<uint64_t>(sequence.length());
    counts_.prefix_hits_tokens += static_cast<uint64_t>(sequence.computed);
  }
  waiting_tokens_ -= sequence.length();
  running_.splice(place_of(running_, sequence), waiting_, candidate);
  if (tier_ != nullptr) start_restore(sequence);
  return true;
}

int64_t Scheduler::attach_prefix(Sequence& sequence) {
  if (!options_.prefix_caching) return 0;
  const int64_t candidates = sequence.reusable() / kPage;
  for (int64_t page = 0; page < candidates; ++page) {
    const int32_t found = pool_.find(page_hash(sequence, page));
    if (found < 0) break;
    sequence.pages.push_back(found);
  }
  sequence.pages_published = static_cast<int64_t>(sequence.pages.size());
  return sequence.pages_published;
}

const PageHash& Scheduler::page_hash(Sequence& sequence, int64_t page) const {
  while (static_cast<int64_t>(sequence.hashes.size()) <= page) {
    const size_t next = sequence.hashes.size();
    const PageHash& parent = next == 0 ? sequence.chain : sequence.hashes.back();
    sequence.hashes.push_back(chain_next(parent, std::span(sequence.tokens).subspan(next * kPage, kPage)));
  }
  return sequence.hashes[static_cast<size_t>(page)];
}

void Scheduler::publish(Sequence& sequence) {
  if (!options_.prefix_caching) return;
  for (; (sequence.pages_published + 1) * kPage <= sequence.computed; ++sequence.pages_published) {
    const int64_t page = sequence.pages_published;
    const bool fresh = pool_.publish(sequence.pages[static_cast<size_t>(page)], page_hash(sequence, page));
    if (fresh && tier_ != nullptr) offer(sequence, page);
  }
}

void Scheduler::commit(const std::vector<int64_t>& valid) {
  GLINT_CHECK(valid.size() == step_.size());
  for (size_t i = 0; i < step_.size(); ++i) {
    step_[i].sequence->computed += valid[i];
    publish(*step_[i].sequence);
  }
  step_.clear();
}

void Scheduler::forget_pages(CacheReset reset) {
  while (reset.running && !running_.empty()) preempt(std::prev(running_.end()));
  pool_.forget_all();
  if (reset.tier && tier_ != nullptr) tier_->forget_all();
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
  out.pages_stride = Scheduler::pages_for(out.context_max);
  for (size_t index = 0; index < rows.size(); ++index) {
    const Sequence& sequence = *rows[index].sequence;
    for (int64_t position = sequence.computed; position < sequence.computed + rows[index].rows; ++position) {
      const int64_t beyond = position - sequence.length();
      if ((rows[index].samples && beyond >= -1) || sequence.scores(position))
        out.logits_rows.push_back(static_cast<int32_t>(out.tokens.size()));
      out.tokens.push_back(beyond < 0 ? sequence.tokens[static_cast<size_t>(position)]
                                      : sequence.drafts[static_cast<size_t>(beyond)]);
      out.positions.push_back(static_cast<int32_t>(position));
      out.sequences.push_back(static_cast<int32_t>(index));
    }
    const size_t start = out.pages.size();
    const auto count = std::min(static_cast<int64_t>(sequence.pages.size()), out.pages_stride);
    out.pages.insert(out.pages.end(), sequence.pages.begin(), sequence.pages.begin() + count);
    out.pages.resize(start + static_cast<size_t>(out.pages_stride), -1);
  }
}

}  // namespace glint
