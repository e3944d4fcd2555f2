#include "engine/drafter.h"

#include <algorithm>

#include "ops/types.h"

namespace glint {

void Drafter::reserve(size_t rows, size_t sequences, size_t page_numbers) {
  if (tokens_max_ == 0) return;
  pass_.reserve(rows, page_numbers);
  drafting_.reserve(sequences);
}

void Drafter::draft(Executor& executor, SequenceSampler& sampler, const std::vector<ScheduledRows>& rows,
                    const std::vector<int64_t>& valid, const StepDescription& description, int64_t tokens) {
  if (tokens_max_ == 0) return;
  describe_first(rows, valid, description, std::min(tokens, tokens_max_));
  if (pass_.step.tokens.empty()) return;
  take_drafts(sampler, executor.draft(pass_));
  while (describe_later()) take_drafts(sampler, executor.draft(pass_));
  for (const ScheduledRows& part : rows) part.sequence->rules.pop(part.sequence->drafts);
}

void Drafter::describe_first(const std::vector<ScheduledRows>& rows, const std::vector<int64_t>& valid,
                             const StepDescription& description, int64_t tokens) {
  pass_.clear();
  drafting_.clear();
  StepDescription& step = pass_.step;
  step.pages = description.pages;
  step.pages_stride = description.pages_stride;
  step.context_max = description.context_max;
  int32_t row = 0;
  for (size_t part = 0; part < rows.size(); ++part) {
    Sequence& sequence = *rows[part].sequence;
    const bool skipped = tokens == 0 && rows[part].decodes;
    for (int64_t i = 0; i < (skipped ? 0 : valid[part]); ++i) {
      const int64_t position = sequence.computed + i;
      step.tokens.push_back(sequence.tokens[static_cast<size_t>(position + 1)]);
      step.positions.push_back(static_cast<int32_t>(position));
      step.sequences.push_back(static_cast<int32_t>(part));
      pass_.source.push_back(row + static_cast<int32_t>(i));
    }
    row += static_cast<int32_t>(rows[part].rows);
    sequence.drafts.clear();
    // The next step emits at most one token more than it has drafts.
    const int64_t wanted = std::min(tokens, sequence.tokens_max - sequence.length() - 1);
    if (!rows[part].samples || sequence.ended || wanted <= 0) continue;
    step.logits_rows.push_back(static_cast<int32_t>(step.tokens.size()) - 1);
    drafting_.push_back(
        {.sequence = &sequence, .position = sequence.computed + valid[part] - 1, .wanted = wanted});
  }
}

void Drafter::take_drafts(SequenceSampler& sampler, float* logits) {
  sampler.run(static_cast<int64_t>(drafting_.size()), [&](int64_t item, int lane) {
    Drafting& one = drafting_[static_cast<size_t>(item)];
    Sequence& sequence = *one.sequence;
    const int64_t position = sequence.generated() + static_cast<int64_t>(sequence.drafts.size());
    const std::span<float> row{logits + item * vocab_size_, static_cast<size_t>(vocab_size_)};
    const TokenId token = sampler.sample(sequence, position, row, nullptr, lane);
    // A row without usable logits drafts nothing; the model's own rows will tell what is wrong, if anything
    // is.
    one.failed = token < 0;
    if (one.failed) return;
    sequence.drafts.push_back(token);
    sequence.rules.push(token);
  });
}

bool Drafter::describe_later() {
  pass_.clear();
  pass_.first = false;
  StepDescription& step = pass_.step;
  size_t kept = 0;
  for (size_t i = 0; i < drafting_.size(); ++i) {
    Drafting one = drafting_[i];
    ++one.position;
    if (one.failed || static_cast<int64_t>(one.sequence->drafts.size()) >= one.wanted) continue;
    step.tokens.push_back(one.sequence->drafts.back());
    step.positions.push_back(static_cast<int32_t>(one.position));
    step.sequences.push_back(static_cast<int32_t>(kept));
    step.logits_rows.push_back(static_cast<int32_t>(kept));
    step.context_max = std::max(step.context_max, one.position + 1);
    pass_.source.push_back(static_cast<int32_t>(i));
    drafting_[kept++] = one;
  }
  drafting_.resize(kept);
  if (kept == 0) return false;
  step.pages_stride = (step.context_max + ops::kPageTokens - 1) / ops::kPageTokens;
  for (const Drafting& one : drafting_) {
    const std::vector<int32_t>& pages = one.sequence->pages;
    const auto count = std::min(static_cast<int64_t>(pages.size()), step.pages_stride);
    step.pages.insert(step.pages.end(), pages.begin(), pages.begin() + count);
    step.pages.resize(step.pages.size() + static_cast<size_t>(step.pages_stride - count), -1);
  }
  return true;
}

void Drafter::count(int64_t drafted, int64_t accepted) {
  if (drafted == 0) return;
  ++counts_.drafts;
  counts_.draft_tokens += static_cast<uint64_t>(drafted);
  counts_.accepted_tokens += static_cast<uint64_t>(accepted);
  for (int64_t i = 0; i < accepted; ++i) ++counts_.accepted_at[static_cast<size_t>(i)];
}

}  // namespace glint
