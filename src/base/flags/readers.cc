#include "base/flags/readers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/error.h"

namespace glint {

namespace {

constexpr double kBeyond = 0x1p62;

[[noreturn]] void refuse_human(std::string_view text, std::string_view why, bool or_auto) {
  fail(ErrorKind::bad_input, "invalid human_readable_int", or_auto ? "_or_auto" : "", " value: '", text,
       "' (", why, ")");
}

/// The power of a suffix, 0 if there is none.
int suffix_power(char suffix) {
  switch (suffix) {
    case 'k':
    case 'K':
      return 1;
    case 'm':
    case 'M':
      return 2;
    case 'g':
    case 'G':
      return 3;
    case 't':
    case 'T':
      return 4;
    default:
      return 0;
  }
}

int64_t read_human(std::string_view text, HumanNumber bounds, bool or_auto) {
  std::string_view digits = text;
  double factor = 1;
  bool fraction_allowed = false;
  if (const int power = text.empty() ? 0 : suffix_power(text.back()); power > 0) {
    const bool binary = text.back() < 'a';
    factor = std::pow(binary ? 1024.0 : 1000.0, power);
    fraction_allowed = !binary;
    digits.remove_suffix(1);
  }
  if (digits.empty() || digits.find_first_not_of("0123456789.") != std::string_view::npos) {
    refuse_human(text, "expected a number such as 131072, 25.6k or 128K", or_auto);
  }
  if (!fraction_allowed && digits.find('.') != std::string_view::npos) {
    refuse_human(text,
                 "Decimals are not allowed with binary suffixes or without one; k, m, g and t are the "
                 "decimal suffixes",
                 or_auto);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  value = std::round(value * factor);
  if (error != std::errc() || end != digits.data() + digits.size())
    refuse_human(text, "not a number", or_auto);
  const bool bounded = bounds.max < HumanNumber{}.max;
  // What lies between the bounds fits into an int64_t.
  if (value < static_cast<double>(bounds.min) || value >= kBeyond ||
      static_cast<int64_t>(value) > bounds.max) {
    refuse_human(text,
                 bounded ? cat("expected ", bounds.min, " to ", bounds.max)
                         : cat("expected at least ", bounds.min, ", and below 2^62"),
                 or_auto);
  }
  return static_cast<int64_t>(value);
}

std::string folded(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

int64_t WholeNumber::operator()(std::string_view text) const {
  int64_t number = 0;
  const bool plus = text.size() > 1 && text.front() == '+';
  const char* const begin = text.data() + (plus ? 1 : 0);
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(begin, stop, number);
  if (end != stop || (error != std::errc() && error != std::errc::result_out_of_range)) {
    fail(ErrorKind::bad_input, "invalid int value: '", text, "'");
  }
  if (error == std::errc() && number >= min && number <= max) return number;
  fail(ErrorKind::bad_input, "expected a whole number from ", min, " to ", max, ", got ", text);
}

std::chrono::seconds WholeSeconds::operator()(std::string_view text) const {
  return std::chrono::seconds(WholeNumber{min, max}(text));
}

int64_t HumanNumber::operator()(std::string_view text) const {
  return read_human(text, *this, false);
}

std::optional<int64_t> HumanNumberOrAuto::operator()(std::string_view text) const {
  if (text == "auto" || text == "-1") return std::nullopt;
  return read_human(text, {}, true);
}

std::string HumanNumberOrAuto::show(const std::optional<int64_t>& value) const {
  return value ? std::to_string(*value) : "auto";
}

double Number::operator()(std::string_view text) const {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(ErrorKind::bad_input, "invalid float value: '", text, "'");
  }
  if (!std::isfinite(value) || !holds(value)) {
    fail(ErrorKind::bad_input, "expected a number ", wanted, ", got ", text);
  }
  return value;
}

std::string AnyNumber::operator()(std::string_view text) const {
  std::string_view digits = text;
  if (digits.size() > 1 && suffix_power(digits.back()) > 0) digits.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || std::isnan(value)) {
    fail(ErrorKind::bad_input, "expected a number, got '", text, "'");
  }
  return std::string(text);
}

std::string Choice::operator()(std::string_view text) const {
  const std::string seen = fold ? folded(text) : std::string(text);
  if (std::find(names.begin(), names.end(), seen) != names.end()) return seen;
  for (const RefusedChoice& choice : refused) {
    if (seen.starts_with(choice.prefix)) fail(ErrorKind::unsupported, text, ": ", choice.reason);
  }
  refuse_choice(text, names);
}

bool read_switch(std::string_view text) {
  const std::string seen = folded(text);
  for (const char* name : {"1", "true", "yes", "on"}) {
    if (seen == name) return true;
  }
  for (const char* name : {"0", "false", "no", "off"}) {
    if (seen == name) return false;
  }
  fail(ErrorKind::bad_input, "expected true or false, got '", text, "'");
}

void refuse_choice(std::string_view text, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  fail(ErrorKind::bad_input, "invalid choice: '", text, "' (choose from ", list, ")");
}

std::string number_shown(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace glint
