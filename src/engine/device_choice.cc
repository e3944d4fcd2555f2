#include "engine/device_choice.h"

#include <charconv>

#include "base/error.h"

namespace glint {

DeviceChoice parse_device(std::string_view text) {
  if (text == "cpu") return {};
  DeviceChoice choice{.kind = DeviceKind::gpu};
  if (text == "cuda") return choice;
  constexpr std::string_view kPrefix = "cuda:";
  constexpr int kOrdinalMax = 1023;
  if (text.starts_with(kPrefix)) {
    const char* first = text.data() + kPrefix.size();
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, choice.ordinal);
    const bool whole = error == std::errc() && end == last && first != last;
    if (whole && choice.ordinal >= 0 && choice.ordinal <= kOrdinalMax) return choice;
  }
  fail(ErrorKind::bad_input, "invalid choice: '", text, "' (choose from cpu, cuda, cuda:N)");
}

DeviceChoice device_flag(std::string_view text) {
  try {
    return parse_device(text);
  } catch (const Error& error) {
    fail(error.kind(), "argument --device: ", error.what());
  }
}

}  // namespace glint
