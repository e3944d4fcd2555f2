// A device without a model: every step takes a fixed time, and the token after `t` at position p is a fixed
// function of p. For tests and benches of everything around a model.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/executor.h"

namespace glint::bench {

/// A config that holds what the loop asks of one.
inline ModelConfig timed_config(int64_t vocab_size) {
  ModelConfig config;
  config.vocab_size = vocab_size;
  return config;
}

class TimedExecutor final : public Executor {
 public:
  /// What is shared with the test; lives as long as the executor.
  struct Control {
    std::atomic<int64_t> step_us{0};
    std::atomic<uint64_t> steps{0};
    std::atomic<int64_t> last_begin_ns{0};  // steady_clock, of the step that began last

    /// The next step, and those after it, wait inside the device until release().
    void hold() { set(true); }
    void release() { set(false); }
    /// Waits until a step stands inside the device.
    void wait_held() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return inside; });
    }

    std::mutex mutex;
    std::condition_variable changed;
    bool held = false, inside = false;

   private:
    void set(bool on) {
      const std::lock_guard lock(mutex);
      held = on;
      changed.notify_all();
    }
  };

  /// `first_token` is the id of the letter a; the other letters follow.
  TimedExecutor(ModelConfig config, int64_t pages, int64_t rows_max, std::shared_ptr<Control> control,
                int32_t first_token = 'a')
      : config_(std::move(config)),
        pages_(pages),
        rows_max_(rows_max),
        control_(std::move(control)),
        first_token_(first_token) {}
  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] int64_t pages_total() const override { return pages_; }
  [[nodiscard]] int64_t rows_max() const override { return rows_max_; }
  float* draft(const DraftDescription& /*draft*/) override { return nullptr; }

  float* execute(const StepDescription& step) override {
    const auto begin = std::chrono::steady_clock::now();
    control_->last_begin_ns = begin.time_since_epoch().count();
    ++control_->steps;
    const auto vocab = static_cast<size_t>(config_.vocab_size);
    logits_.assign(step.logits_rows.size() * vocab, 0.0F);
    for (size_t i = 0; i < step.logits_rows.size(); ++i) {
      const auto row = static_cast<size_t>(step.logits_rows[i]);
      logits_[i * vocab + static_cast<size_t>(token_at(step.positions[row] + 1))] = 10.0F;
    }
    wait_while_held();
    const int64_t step_us = control_->step_us;
    if (step_us > 0) std::this_thread::sleep_until(begin + std::chrono::microseconds(step_us));
    return logits_.data();
  }

  /// What a greedy request gets at this position of its sequence: letters.
  [[nodiscard]] int32_t token_at(int32_t position) const { return first_token_ + position % 26; }

 private:
  void wait_while_held() {
    std::unique_lock lock(control_->mutex);
    control_->inside = control_->held;
    control_->changed.notify_all();
    control_->changed.wait(lock, [&] { return !control_->held; });
    control_->inside = false;
  }

  ModelConfig config_;
  int64_t pages_, rows_max_;
  std::shared_ptr<Control> control_;
  int32_t first_token_;
  std::vector<float> logits_;
};

}  // namespace glint::bench
