// Rounds as their definition says (engine/round.h), from an executor's own execute() and draft() and the
// CPU's sampler: what a device's rounds are compared with, and what lets the run-ahead loop run without one.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "base/error.h"
#include "engine/executor.h"
#include "engine/sampler.h"
#include "ops/types.h"

namespace glint::testing {

struct RoundCounts {
  int64_t started = 0, continued = 0;
  std::vector<int64_t> drafts;  // of each
};

class HostRounds final : public RoundRunner {
 public:
  /// `counts` outlives this; read it when nothing runs.
  HostRounds(Executor& executor, int64_t context_limit, RoundCounts& counts)
      : executor_(executor), context_limit_(context_limit), counts_(counts) {}

  void set_sampleable(const std::vector<bool>& sampleable) override {
    sampler_ = std::make_unique<Sampler>(sampleable);
  }
  [[nodiscard]] bool takes(int64_t /*sequences*/, int64_t /*drafts*/) const override { return true; }
  [[nodiscard]] int64_t context_limit() const override { return context_limit_; }

  void start(const RoundDescription& round) override {
    GLINT_CHECK(static_cast<int64_t>(started_.size()) < kStartedMax);
    started_.push_back(round);
    ++counts_.started;
    counts_.drafts.push_back(round.drafts);
    counts_.continued += round.continues ? 1 : 0;
  }

  /// Runs it only now: what a device may have read or written late is late here.
  RoundResult finish() override {
    for (std::vector<int32_t>* old : {&kept_.taken, &kept_.tokens, &kept_.drafts})
      std::ranges::fill(*old, -1'000'000);
    round_ = std::move(started_.front());
    started_.pop_front();
    if (!round_.continues) begin(round_);
    Result result;
    verify(result);
    guess(result);
    kept_ = std::move(result);
    return {.taken = kept_.taken,
            .tokens = kept_.tokens,
            .drafts = kept_.drafts,
            .model_seconds = 1e-3 * static_cast<double>(kept_.tokens.size()),
            .drafting_seconds = 1e-3 * static_cast<double>(kept_.drafts.size())};
  }

 private:
  struct Slot {
    std::vector<int32_t> tokens;  // the last token, then guesses
    int32_t position = 0, generated = 0;
    SamplingParams sampling;
    uint64_t seed = 0;
  };
  struct Result {
    std::vector<int32_t> taken, tokens, drafts;
  };

  void begin(const RoundDescription& round) {
    slots_.clear();
    const int64_t rows = 1 + round.drafts;
    for (int64_t s = 0; s < round.sequences; ++s) {
      const auto at = static_cast<size_t>(s);
      Slot slot;
      slot.tokens.assign(round.tokens.begin() + s * rows, round.tokens.begin() + (s + 1) * rows);
      slot.position = round.positions[at];
      slot.generated = round.generated[at];
      slot.sampling.temperature = round.sampling[at].temperature;
      slot.sampling.top_p = round.sampling[at].top_p;
      slot.sampling.min_p = round.sampling[at].min_p;
      slot.sampling.top_k = round.sampling[at].top_k;
      slot.seed = round.sampling[at].seed;
      slots_.push_back(std::move(slot));
    }
  }

  int32_t sample(const Slot& slot, int64_t ahead, float* logits) {
    const auto size = static_cast<size_t>(executor_.config().vocab_size);
    ScannedRow row;
    if (!sampler_->scan({logits, size}, row)) return -1;
    return sampler_->take(row, slot.sampling, draw_key(slot.seed, slot.generated + ahead));
  }

  StepDescription place() const {
    StepDescription step;
    step.pages = round_.pages;
    step.pages_stride = round_.pages_stride;
    step.context_max = round_.context_max;
    return step;
  }
  static void add_row(StepDescription& step, int32_t token, int32_t position, size_t slot) {
    step.tokens.push_back(std::max(token, 0));
    step.positions.push_back(position);
    step.sequences.push_back(static_cast<int32_t>(slot));
  }

  void verify(Result& result) {
    StepDescription step = place();
    for (size_t s = 0; s < slots_.size(); ++s) {
      for (size_t j = 0; j < slots_[s].tokens.size(); ++j) {
        step.logits_rows.push_back(static_cast<int32_t>(step.tokens.size()));
        add_row(step, slots_[s].tokens[j], slots_[s].position + static_cast<int32_t>(j), s);
      }
    }
    float* logits = executor_.execute(step);
    for (const Slot& slot : slots_) {
      int32_t taken = 0;
      for (size_t j = 0; j < slot.tokens.size(); ++j, logits += executor_.config().vocab_size) {
        const int32_t token = sample(slot, static_cast<int64_t>(j), logits);
        result.tokens.push_back(token);
        const bool confirmed = j > 0 && slot.tokens[j] >= 0 && taken == static_cast<int32_t>(j) &&
                               result.tokens[result.tokens.size() - 2] == slot.tokens[j];
        if (j == 0 || confirmed) ++taken;
      }
      result.taken.push_back(taken);
    }
  }

  void guess(Result& result) {
    const int64_t drafts = round_.drafts;
    DraftDescription pass;
    pass.step = place();
    int32_t row = 0;
    for (size_t s = 0; s < slots_.size(); ++s) {
      Slot& slot = slots_[s];
      const size_t first = s * static_cast<size_t>(1 + drafts);
      for (int32_t j = 0; j < result.taken[s]; ++j) {
        pass.source.push_back(row + j);
        add_row(pass.step, result.tokens[first + static_cast<size_t>(j)], slot.position + j, s);
      }
      row += static_cast<int32_t>(1 + drafts);
      pass.step.logits_rows.push_back(static_cast<int32_t>(pass.step.tokens.size()) - 1);
      slot.position += result.taken[s];
      slot.generated += result.taken[s];
      slot.tokens = {std::max(result.tokens[first + static_cast<size_t>(result.taken[s]) - 1], 0)};
    }
    for (int64_t n = 0; n < drafts; ++n) {
      float* logits = executor_.draft(pass);
      pass.clear();
      pass.first = false;
      pass.step = place();
      for (size_t s = 0; s < slots_.size(); ++s, logits += executor_.config().vocab_size) {
        const int32_t token = sample(slots_[s], n, logits);
        result.drafts.push_back(token);
        slots_[s].tokens.push_back(token);
        pass.source.push_back(static_cast<int32_t>(s));
        pass.step.logits_rows.push_back(static_cast<int32_t>(s));
        add_row(pass.step, token, slots_[s].position + static_cast<int32_t>(n), s);
      }
    }
  }

  Executor& executor_;
  int64_t context_limit_;
  RoundCounts& counts_;
  std::unique_ptr<Sampler> sampler_;
  RoundDescription round_;
  std::vector<Slot> slots_;
  std::deque<RoundDescription> started_;
  Result kept_;
};

/// Another executor without its rounds.
class PlainExecutor : public Executor {
 public:
  explicit PlainExecutor(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}
  [[nodiscard]] const ModelConfig& config() const override { return executor_->config(); }
  [[nodiscard]] int64_t pages_total() const override { return executor_->pages_total(); }
  [[nodiscard]] int64_t rows_max() const override { return executor_->rows_max(); }
  float* execute(const StepDescription& step) override { return executor_->execute(step); }
  float* draft(const DraftDescription& draft) override { return executor_->draft(draft); }
  PageMemory* page_memory() override { return executor_->page_memory(); }
  [[nodiscard]] const ExpertLoad* expert_load() const override { return executor_->expert_load(); }
  ThreadPool* threads() override { return executor_->threads(); }

 protected:
  std::unique_ptr<Executor> executor_;
};

/// An executor whose rounds are HostRounds.
class HostRoundExecutor final : public PlainExecutor {
 public:
  HostRoundExecutor(std::unique_ptr<Executor> executor, int64_t context_limit, RoundCounts& counts)
      : PlainExecutor(std::move(executor)), rounds_(*executor_, context_limit, counts) {}
  RoundRunner* rounds() override { return &rounds_; }

 private:
  HostRounds rounds_;
};

}  // namespace glint::testing
