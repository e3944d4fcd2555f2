#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "bench/serve/serve_report.h"

namespace glint::bench {

namespace {

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  std::array<char, 64> text{};
  const int bytes =
      whole >= 3600 ? std::snprintf(text.data(), text.size(), "%d:%02d:%02d", static_cast<int>(whole / 3600),
                                    static_cast<int>(whole / 60 % 60), static_cast<int>(whole % 60))
                    : std::snprintf(text.data(), text.size(), "%02d:%02d", static_cast<int>(whole / 60),
                                    static_cast<int>(whole % 60));
  return {text.data(), static_cast<size_t>(bytes)};
}

/// Eighths of a cell, as tqdm draws them.
std::string cells(double share, size_t width) {
  constexpr std::array<const char*, 8> kParts{" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<size_t>(share * static_cast<double>(width) * 8);
  std::string text;
  for (size_t i = 0; i < width; ++i) {
    const size_t filled = eighths - std::min(eighths, i * 8);
    text += filled >= 8 ? "█" : kParts[filled];
  }
  return text;
}

}  // namespace

std::string progress_bar_text(size_t done, size_t total, double seconds) {
  constexpr size_t kCells = 10;
  const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  std::array<char, 64> percent{};
  static_cast<void>(std::snprintf(percent.data(), percent.size(), "%3.0f%%", std::floor(share * 100)));
  std::string rate = "?it/s";
  std::string left = "?";
  if (done > 0 && seconds > 0) {
    const double per_second = static_cast<double>(done) / seconds;
    std::array<char, 64> text{};
    static_cast<void>(per_second < 1 ? std::snprintf(text.data(), text.size(), "%5.2fs/it", 1 / per_second)
                                     : std::snprintf(text.data(), text.size(), "%5.2fit/s", per_second));
    rate = text.data();
    left = clock_text(static_cast<double>(total - done) / per_second);
  }
  return cat(percent.data(), "|", cells(share, kCells), "| ", done, "/", total, " [", clock_text(seconds),
             "<", left, ", ", rate, "]");
}

}  // namespace glint::bench
