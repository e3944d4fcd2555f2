#include <charconv>

#include "base/error.h"
#include "commands.h"

namespace glint {

CLI::Validator whole_number(uint64_t min, uint64_t max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && number >= min && number <= max) return {};
    return cat("expected a whole number from ", min, " to ", max, ", got ", text);
  };
  return {check, "", ""};
}

}  // namespace glint
