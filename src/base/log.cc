#include "base/log.h"

#include <spdlog/async.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cctype>
#include <memory>
#include <mutex>

namespace glint {

namespace {

constexpr size_t kQueueLines = 8192;

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return spdlog::level::trace;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::critical:
      return spdlog::level::critical;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

/// The level in capitals, as users of Python servers grep for it.
class LevelFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    static constexpr std::string_view kNames[] = {"TRACE", "DEBUG",    "INFO", "WARNING",
                                                  "ERROR", "CRITICAL", "OFF"};
    const std::string_view name = kNames[message.level];
    out.append(name.data(), name.data() + name.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LevelFlag>();
  }
};

void set_format(spdlog::logger& logger) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LevelFlag>('*').set_pattern("%* %m-%d %H:%M:%S %v");
  logger.set_formatter(std::move(formatter));
  logger.set_level(spdlog::level::trace);  // the level is checked before the text is made
}

std::shared_ptr<spdlog::logger> direct_logger() {
  auto logger = std::make_shared<spdlog::logger>("glint", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  set_format(*logger);
  return logger;
}

struct LogState {
  std::atomic<LogLevel> level{LogLevel::info};
  std::mutex mutex;  // guards the two pointers; a line takes a copy
  std::shared_ptr<spdlog::details::thread_pool> queue;
  std::shared_ptr<spdlog::logger> logger = direct_logger();
};

LogState& state() {
  static LogState log_state;
  return log_state;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

std::string without_control_characters(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size() + 16);
  for (const char c : text) {
    if (!is_control(c) || c == '\t') {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out.push_back(kHex[byte >> 4U]);
    out.push_back(kHex[byte & 15U]);
  }
  return out;
}

}  // namespace

LogLevel parse_log_level(std::string_view name) {
  std::string low;
  for (const char c : name) low.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  if (low == "trace") return LogLevel::trace;
  if (low == "debug") return LogLevel::debug;
  if (low == "info") return LogLevel::info;
  if (low == "warning" || low == "warn") return LogLevel::warning;
  if (low == "error") return LogLevel::error;
  if (low == "critical" || low == "fatal") return LogLevel::critical;
  if (low == "off") return LogLevel::off;
  fail(ErrorKind::bad_input, "log level \"", name,
       "\" is unknown (choose from trace, debug, info, warning, error, critical, off)");
}

void set_log_level(LogLevel level) {
  state().level = level;
}

bool log_enabled(LogLevel level) {
  return level != LogLevel::off && level >= state().level.load();
}

void log_line(LogLevel level, std::string_view text) {
  if (!log_enabled(level)) return;
  std::shared_ptr<spdlog::logger> logger;
  {
    const std::lock_guard lock(state().mutex);
    logger = state().logger;
  }
  std::string clean;
  bool dirty = false;
  for (const char c : text) dirty = dirty || is_control(c);
  if (dirty) {
    clean = without_control_characters(text);
    text = clean;
  }
  logger->log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

void start_background_logging() {
  const std::lock_guard lock(state().mutex);
  if (state().queue) return;
  state().queue = std::make_shared<spdlog::details::thread_pool>(kQueueLines, 1);
  auto logger =
      std::make_shared<spdlog::async_logger>("glint", std::make_shared<spdlog::sinks::stderr_sink_mt>(),
                                             state().queue, spdlog::async_overflow_policy::overrun_oldest);
  set_format(*logger);
  state().logger = std::move(logger);
}

void stop_background_logging() {
  std::shared_ptr<spdlog::details::thread_pool> queue;
  {
    const std::lock_guard lock(state().mutex);
    queue = std::move(state().queue);
    if (queue) state().logger = direct_logger();
  }
  queue.reset();  // its destructor writes what is queued and joins the thread
}

}  // namespace glint
