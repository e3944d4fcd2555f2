#include "base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace glint {

namespace {

constexpr int kBarCells = 30;
constexpr int64_t kGigabyte = 1'000'000'000;
constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kLineInterval = std::chrono::seconds(5);

}  // namespace

std::string progress_text(const std::string& label, int64_t done_bytes, int64_t total_bytes, double seconds,
                          bool bar) {
  const double fraction =
      total_bytes <= 0
          ? 1.0
          : std::clamp(static_cast<double>(done_bytes) / static_cast<double>(total_bytes), 0.0, 1.0);
  std::string text = label;
  if (bar) {
    const int filled = static_cast<int>(fraction * kBarCells);
    text += "  [" + std::string(static_cast<size_t>(filled), '#') +
            std::string(static_cast<size_t>(kBarCells - filled), ' ') + "]";
  }
  const double rate = seconds > 0 ? static_cast<double>(done_bytes) / seconds : 0;
  const bool large = total_bytes >= kGigabyte;
  const double unit = large ? 1e9 : 1e6;
  std::array<char, 128> numbers{};
  (void)std::snprintf(numbers.data(), numbers.size(), "  %3d %%  %.2f of %.2f %s, %.2f GB/s",
                      static_cast<int>(fraction * 100), static_cast<double>(done_bytes) / unit,
                      static_cast<double>(total_bytes) / unit, large ? "GB" : "MB", rate / 1e9);
  text += numbers.data();
  if (fraction < 1 && rate > 0) {
    (void)std::snprintf(numbers.data(), numbers.size(), ", %.0f s left",
                        static_cast<double>(total_bytes - done_bytes) / rate);
    text += numbers.data();
  } else if (fraction >= 1) {
    (void)std::snprintf(numbers.data(), numbers.size(), ", %.1f s", seconds);
    text += numbers.data();
  }
  return text;
}

Progress::Progress(std::string label) : label_(std::move(label)), terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::show(int64_t done_bytes, int64_t total_bytes) {
  shown_ = Clock::now();
  const double seconds = std::chrono::duration<double>(shown_ - start_).count();
  const std::string text = progress_text(label_, done_bytes, total_bytes, seconds, terminal_);
  // \033[K clears what a longer line before it left behind.
  if (terminal_) {
    (void)std::fprintf(stderr, "\r%s\033[K", text.c_str());
  } else {
    (void)std::fprintf(stderr, "%s\n", text.c_str());
  }
}

void Progress::update(int64_t done_bytes, int64_t total_bytes) {
  const auto since = Clock::now() - shown_;
  if (since < kTerminalInterval || (!terminal_ && since < kLineInterval)) return;
  show(done_bytes, total_bytes);
}

void Progress::finish(int64_t total_bytes) {
  show(total_bytes, total_bytes);
  if (terminal_) (void)std::fputc('\n', stderr);
}

}  // namespace glint
