#include "checkpoint/hub/retry.h"

#include <algorithm>
#include <random>
#include <thread>

#include "base/log.h"

namespace glint::hub {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice{50};  // how late a stop may be seen

/// Half to all of `time`, so that many clients of a hub that comes back do not come back together.
milliseconds jittered(milliseconds time) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return time / 2 + milliseconds(std::uniform_int_distribution<int64_t>(0, time.count() / 2)(random));
}

std::string seconds_text(milliseconds time) {
  const int64_t tenths = (time.count() + 99) / 100;
  return cat(tenths / 10, ".", tenths % 10, " s");
}

}  // namespace

void Patience::sleep(milliseconds time) const {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (stop_) throw Stopped{};
    std::this_thread::sleep_for(std::min(kSlice, time));
  }
}

void Patience::failed(const Error& error) {
  if (stop_) throw Stopped{};
  const auto* transport = dynamic_cast<const TransportError*>(&error);
  const auto* busy = dynamic_cast<const Retryable*>(&error);
  if (busy == nullptr && (transport == nullptr || !transport->retryable())) throw;
  ++failures_;
  if (failures_ >= settings_.attempts) {
    fail(ErrorKind::io, error.what(), " (gave up after ", failures_,
         " attempts; the same command continues where this one ended)");
  }
  milliseconds pause = settings_.first_pause * (int64_t{1} << std::min(failures_ - 1, 16));
  pause = jittered(std::min(pause, settings_.longest_pause));
  if (busy != nullptr && busy->retry_after()) {
    pause = std::min<milliseconds>(*busy->retry_after(), settings_.longest_retry_after);
  }
  log_warning(error.what(), "; again in ", seconds_text(pause), " (attempt ", failures_ + 1, " of ",
              settings_.attempts, ")");
  sleep(pause);
}

}  // namespace glint::hub
