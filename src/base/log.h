// Log lines on standard error: "INFO 11-30 18:05:11 text", one call one line.
//
// Until start_background_logging() a line is written by the caller. After it the lines pass through a bounded
// queue and a thread of their own, so that a terminal that does not read cannot hold a server thread; the
// oldest lines are dropped if the queue is full.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace glint {

enum class LogLevel { trace, debug, info, warning, error, critical, off };

/// "trace", "debug", "info", "warning" (or "warn"), "error", "critical" (or "fatal"), "off"; any case. Throws
/// bad_input.
LogLevel parse_log_level(std::string_view name);

void set_log_level(LogLevel level);
[[nodiscard]] bool log_enabled(LogLevel level);

/// Control characters in `text` are written as \xHH, so one call can never forge a second line.
void log_line(LogLevel level, std::string_view text);

template <class... Parts>
void log(LogLevel level, const Parts&... parts) {
  if (log_enabled(level)) log_line(level, cat(parts...));
}
template <class... Parts>
void log_debug(const Parts&... parts) {
  log(LogLevel::debug, parts...);
}
template <class... Parts>
void log_info(const Parts&... parts) {
  log(LogLevel::info, parts...);
}
template <class... Parts>
void log_warning(const Parts&... parts) {
  log(LogLevel::warning, parts...);
}
template <class... Parts>
void log_error(const Parts&... parts) {
  log(LogLevel::error, parts...);
}

void start_background_logging();
/// Writes out what is queued and returns to direct writing. Call it before the process ends.
void stop_background_logging();

}  // namespace glint
