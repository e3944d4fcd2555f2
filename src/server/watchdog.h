// Watches the engine's steps: one that takes too long is reported with the flight recorder's last steps.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "engine/engine.h"

namespace glint {

struct WatchdogOptions {
  std::chrono::milliseconds step_limit{300'000};  // 0: no watchdog
  std::string dump_file;                          // the last steps go there too, if not empty
  bool exit = false;                              // end the process after the report
};

class Watchdog {
 public:
  /// `on_exit` is what options.exit calls (the process' end, but for tests).
  Watchdog(std::shared_ptr<const Engine> engine, WatchdogOptions options, std::function<void()> on_exit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Steps that were found over the limit; each counts once.
  [[nodiscard]] uint64_t steps_over_limit() const { return over_; }

 private:
  void run();
  void look();
  void report(const EngineHealth& health);

  std::shared_ptr<const Engine> engine_;
  const WatchdogOptions options_;
  std::function<void()> on_exit_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  uint64_t reported_ = 0;  // number of the step that was reported last
  std::atomic<uint64_t> over_{0};
  std::thread thread_;
};

}  // namespace glint
