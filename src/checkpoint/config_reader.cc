#include "checkpoint/config_reader.h"

#include <algorithm>

namespace glint {

namespace {

constexpr size_t kValueBytesShown = 100;
constexpr double kNumberMin = 1e-30;
constexpr double kNumberMax = 1e30;

}  // namespace

ConfigReader::ConfigReader(const Json& object, std::string_view what, std::string_view prefix)
    : object_(object), what_(what), prefix_(prefix) {
  GLINT_CHECK(object.is_object());
}

const Json* ConfigReader::find(const char* key) const {
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::string ConfigReader::found(std::string_view key) const {
  const auto at = object_.find(std::string(key));
  if (at == object_.end()) return "missing";
  // ASCII only, so that cutting cannot split a character and control characters cannot break the line.
  std::string text = at->dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kValueBytesShown) text = text.substr(0, kValueBytesShown) + "...";
  return text;
}

const Json& ConfigReader::required(const char* key) const {
  const Json* const value = find(key);
  if (value == nullptr) refuse(ErrorKind::bad_input, key, "a value");
  return *value;
}

int64_t ConfigReader::integer(const char* key, int64_t min, int64_t max) const {
  const auto at = object_.find(key);
  const bool whole = at != object_.end() && at->is_number_integer();
  const bool fits =
      whole && (!at->is_number_unsigned() || at->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!fits || at->get<int64_t>() < min || at->get<int64_t>() > max) {
    refuse(ErrorKind::bad_input, key, "a whole number from ", min, " to ", max);
  }
  return at->get<int64_t>();
}

int64_t ConfigReader::integer_or(const char* key, int64_t fallback, int64_t min, int64_t max) const {
  return has(key) ? integer(key, min, max) : fallback;
}

double ConfigReader::positive(const char* key) const {
  const auto at = object_.find(key);
  const bool number = at != object_.end() && at->is_number();
  // Written so that NaN is refused too. The range keeps the number normal as float32.
  if (!number || !(at->get<double>() >= kNumberMin && at->get<double>() <= kNumberMax)) {
    refuse(ErrorKind::bad_input, key, "a number above 0, from ", kNumberMin, " to ", kNumberMax);
  }
  return at->get<double>();
}

double ConfigReader::positive_or(const char* key, double fallback) const {
  return has(key) ? positive(key) : fallback;
}

bool ConfigReader::boolean_or(const char* key, bool fallback) const {
  const Json* const value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) refuse(ErrorKind::bad_input, key, "true or false");
  return value->get<bool>();
}

std::vector<std::string> ConfigReader::strings(const char* key, int64_t count,
                                               const std::vector<std::string_view>& choices) const {
  const Json& list = required(key);
  if (!list.is_array()) refuse(ErrorKind::bad_input, key, "a list of ", count, " strings");
  if (list.size() != static_cast<size_t>(count)) {
    fail(ErrorKind::bad_input, what_, ": ", prefix_, key, " has ", list.size(), " entries, expected ", count,
         " (num_hidden_layers)");
  }
  std::vector<std::string> strings;
  for (const Json& entry : list) {
    const bool known = entry.is_string() && std::find(choices.begin(), choices.end(),
                                                      entry.get_ref<const std::string&>()) != choices.end();
    if (!known) {
      std::string expected;
      for (const std::string_view choice : choices)
        expected += cat(expected.empty() ? "\"" : " or \"", choice, "\"");
      fail(ErrorKind::bad_input, what_, ": ", prefix_, key, "[", strings.size(), "] is ",
           entry.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kValueBytesShown),
           ", expected ", expected);
    }
    strings.push_back(entry.get<std::string>());
  }
  return strings;
}

void ConfigReader::expect_if_present(const char* key, const Json& expected) const {
  if (has(key)) expect(key, expected);
}

void ConfigReader::expect(const char* key, const Json& expected) const {
  const Json* const value = find(key);
  // nlohmann compares 1 == 1.0 as equal and true == 1 as different, which is what is wanted.
  if (value == nullptr || *value != expected) refuse(ErrorKind::unsupported, key, expected.dump());
}

}  // namespace glint
