// Trying again: what is worth it, how long to wait, when to give up.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "base/error.h"
#include "checkpoint/hub/settings.h"

namespace glint::hub {

/// Set from elsewhere: the download ends at the next chance, and what it brought stays for the next time.
using StopFlag = std::atomic<bool>;

/// Thrown when a StopFlag was seen.
struct Stopped {};

/// A hub that cannot answer now: 408, 429, 5xx, a body that ends early.
class Retryable : public Error {
 public:
  explicit Retryable(const std::string& message, std::optional<std::chrono::seconds> retry_after = {})
      : Error(ErrorKind::io, message), retry_after_(retry_after) {}
  [[nodiscard]] std::optional<std::chrono::seconds> retry_after() const { return retry_after_; }

 private:
  std::optional<std::chrono::seconds> retry_after_;
};

/// The attempts of one task.
class Patience {
 public:
  Patience(const HubSettings& settings, const StopFlag& stop) : settings_(settings), stop_(stop) {}

  /// Something new came: counting starts again.
  void progress() { failures_ = 0; }

  /// Sleeps before the next attempt, or throws `error` again with the number of attempts if they are used up
  /// or if another would be of no use. `error` is being handled: call it in a catch block. Throws Stopped.
  void failed(const Error& error);

 private:
  void sleep(std::chrono::milliseconds time) const;

  const HubSettings& settings_;
  const StopFlag& stop_;
  int failures_ = 0;
};

/// body() until it does not throw what is retryable.
template <class Body>
auto with_retries(const HubSettings& settings, const StopFlag& stop, const Body& body) {
  Patience patience(settings, stop);
  for (;;) {
    try {
      return body();
    } catch (const Error& error) {
      patience.failed(error);
    }
  }
}

}  // namespace glint::hub
