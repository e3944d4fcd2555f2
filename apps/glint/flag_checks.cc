#include <charconv>

#include "base/error.h"
#include "commands.h"

namespace glint {

namespace {

template <class Number>
CLI::Validator in_range(Number min, Number max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    Number number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && number >= min && number <= max) return {};
    return cat("expected a whole number from ", min, " to ", max, ", got ", text);
  };
  return {check, "", ""};
}

}  // namespace

CLI::Validator whole_number(uint64_t min, uint64_t max) {
  return in_range(min, max);
}

}  // namespace glint
