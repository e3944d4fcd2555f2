#include "server/watchdog.h"

#include <algorithm>

#include "base/file.h"
#include "base/log.h"
#include "engine/step_ring.h"

namespace glint {

namespace {

double seconds(EngineClock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Watchdog::Watchdog(std::shared_ptr<const Engine> engine, WatchdogOptions options,
                   std::function<void()> on_exit)
    : engine_(std::move(engine)), options_(std::move(options)), on_exit_(std::move(on_exit)) {
  if (options_.step_limit.count() > 0) thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::run() {
  const auto period = std::clamp<std::chrono::milliseconds>(
      options_.step_limit / 4, std::chrono::milliseconds(5), std::chrono::milliseconds(1000));
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, period, [&] { return stop_; });
    if (stop_) return;
    lock.unlock();
    look();
    lock.lock();
  }
}

void Watchdog::look() {
  const EngineHealth health = engine_->health();
  const bool over = health.running && *health.running > options_.step_limit;
  if (reported_ != 0 && !(over && health.step == reported_)) {
    log_warning("watchdog: step ", reported_, " has ended; the engine goes on");
    reported_ = 0;
  }
  if (!over || health.step == reported_) return;
  reported_ = health.step;
  ++over_;
  report(health);
  if (options_.exit) on_exit_();
}

void Watchdog::report(const EngineHealth& health) {
  const auto now = EngineClock::now();
  const std::vector<StepRecord> steps = engine_->recent_steps();
  log_error("watchdog: step ", health.step, " has run for ", seconds(*health.running),
            " s, the limit (--watchdog-timeout) is ", seconds(options_.step_limit), " s; the last ",
            steps.size(), " steps follow");
  std::string text;
  for (const StepRecord& step : steps) {
    const std::string line = describe_record(step, now);
    log_error("watchdog: ", line);
    text += line + "\n";
  }
  if (options_.dump_file.empty()) return;
  try {
    write_file_atomically(options_.dump_file, text);
    log_error("watchdog: the steps are also in ", options_.dump_file);
  } catch (const std::exception& failure) {
    log_error("watchdog: ", failure.what(), "; choose another --watchdog-dump");
  }
}

}  // namespace glint
