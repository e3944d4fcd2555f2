#include "server/fields.h"

#include <cmath>

#include "server/api_error.h"

namespace glint {

namespace {

constexpr size_t kErrorsListed = 10;
constexpr size_t kEchoBytes = 200;

std::optional<int64_t> as_integer(const OrderedJson& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (std::floor(number) != number || std::abs(number) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::string type_of(const OrderedJson& value) {
  if (value.is_binary()) return "an integer out of range";  // how the reader keeps the digits of huge ones
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return shortened(dump_json(value));
}

}  // namespace

std::string shortened(std::string text) {
  if (text.size() <= kEchoBytes) return text;
  size_t end = kEchoBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text + "...";
}

void refuse_body(std::string param, std::string message) {
  throw ApiRefusal({400, "Bad Request", std::move(message), std::move(param)});
}

Fields::Fields(const OrderedJson& object, std::string path) : object_(object), path_(std::move(path)) {}

const OrderedJson* Fields::get(std::string_view name) const {
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::wrong(std::string_view name, std::string_view expected) {
  const OrderedJson* value = get(name);
  const std::string found = value == nullptr ? "nothing" : type_of(*value);
  wrong_.push_back({path_ + std::string(name), cat(path_, name, ": expected ", expected, ", found ", found)});
}

std::optional<double> Fields::number(std::string_view name) {
  const OrderedJson* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  wrong(name, "a number");
  return std::nullopt;
}

std::optional<int64_t> Fields::integer(std::string_view name) {
  const OrderedJson* value = get(name);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  if (!number) wrong(name, "an integer");
  return number;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const OrderedJson* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong(name, "true or false");
  return std::nullopt;
}

std::optional<std::string> Fields::text(std::string_view name) {
  const OrderedJson* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  wrong(name, "a string");
  return std::nullopt;
}

std::optional<std::vector<int64_t>> Fields::integers(std::string_view name) {
  const OrderedJson* value = get(name);
  if (value == nullptr) return std::nullopt;
  std::vector<int64_t> numbers;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    const auto number = as_integer((*value)[i]);
    good = number.has_value();
    if (good) numbers.push_back(*number);
  }
  if (good) return numbers;
  wrong(name, "a list of integers");
  return std::nullopt;
}

std::optional<std::vector<std::string>> Fields::texts(std::string_view name) {
  const OrderedJson* value = get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  std::vector<std::string> texts;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    good = (*value)[i].is_string();
    if (good) texts.push_back((*value)[i].get<std::string>());
  }
  if (good) return texts;
  wrong(name, "a string or a list of strings");
  return std::nullopt;
}

const OrderedJson* Fields::object(std::string_view name) {
  const OrderedJson* value = get(name);
  if (value == nullptr || value->is_object()) return value;
  wrong(name, "an object");
  return nullptr;
}

void Fields::check() const {
  if (wrong_.empty()) return;
  std::string message = wrong_.front().message;
  for (size_t i = 1; i < wrong_.size() && i < kErrorsListed; ++i) message += "; " + wrong_[i].message;
  if (wrong_.size() > kErrorsListed) message += cat("; and ", wrong_.size() - kErrorsListed, " more");
  refuse_body(wrong_.front().param, std::move(message));
}

}  // namespace glint
