#include "text/python_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"

namespace glint {

namespace {

/// Builds the document bottom-up. Members gather in the frame, with an index once there are many, because the
/// lookup of OrderedJson is linear and its growth copies.
class DocumentBuilder : public nlohmann::json_sax<OrderedJson> {
 public:
  DocumentBuilder(std::string_view what, const JsonLimits& limits) : what_(what), limits_(limits) {}

  OrderedJson take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& digits) override {
    if (digits.find_first_of(".eE") != std::string::npos) return add(value);
    return add(OrderedJson::binary(std::vector<uint8_t>(digits.begin(), digits.end()), kBigInteger));
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override { return open(OrderedJson::object()); }
  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool end_object() override {
    Frame frame = close();
    auto& object = frame.value.get_ref<OrderedJson::object_t&>();
    object.reserve(frame.members.size());
    for (auto& [name, value] : frame.members) object.emplace_back(std::move(name), std::move(value));
    return place(std::move(frame.value));
  }
  bool start_array(size_t) override { return open(OrderedJson::array()); }
  bool end_array() override { return place(close().value); }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // The library's text is "[json.exception.parse_error.101] parse error at line 1, column 2: reason".
    std::string_view reason = error.what();
    if (const auto bracket = reason.find("] "); bracket != std::string_view::npos)
      reason.remove_prefix(bracket + 2);
    fail(ErrorKind::bad_input, what_, ": not valid JSON: ", reason.substr(0, 300));
  }

 private:
  struct Frame {
    OrderedJson value;
    std::string key;
    std::vector<std::pair<std::string, OrderedJson>> members;
    std::unordered_map<std::string, size_t> index;  // empty below kIndexFrom members
  };
  static constexpr size_t kIndexFrom = 16;

  bool open(OrderedJson value) {
    if (std::cmp_greater_equal(open_.size(), limits_.depth_max)) {
      fail(ErrorKind::bad_input, what_, ": nested deeper than ", limits_.depth_max, " levels");
    }
    count();
    open_.push_back({std::move(value), {}, {}, {}});
    return true;
  }

  Frame close() {
    Frame frame = std::move(open_.back());
    open_.pop_back();
    return frame;
  }

  bool add(OrderedJson value) {
    count();
    return place(std::move(value));
  }

  void count() {
    if (++values_ > limits_.values_max) {
      fail(ErrorKind::bad_input, what_, ": more than ", limits_.values_max, " values");
    }
  }

  bool place(OrderedJson value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Frame& frame = open_.back(); frame.value.is_array()) {
      frame.value.push_back(std::move(value));
    } else {
      place_member(frame, std::move(value));
    }
    return true;
  }

  void place_member(Frame& frame, OrderedJson value) {
    const size_t found = find_member(frame);
    if (found < frame.members.size()) {
      if (limits_.refuse_duplicate_keys) {
        fail(ErrorKind::bad_input, what_, ": the key \"", frame.key, "\" stands twice");
      }
      frame.members[found].second = std::move(value);
      return;
    }
    if (frame.members.size() >= limits_.keys_max) {
      fail(ErrorKind::bad_input, what_, ": an object with more than ", limits_.keys_max, " keys");
    }
    if (!frame.index.empty()) frame.index.emplace(frame.key, frame.members.size());
    frame.members.emplace_back(std::move(frame.key), std::move(value));
    if (frame.members.size() == kIndexFrom) {
      for (size_t i = 0; i < kIndexFrom; ++i) frame.index.emplace(frame.members[i].first, i);
    }
  }

  static size_t find_member(const Frame& frame) {
    if (!frame.index.empty()) {
      const auto found = frame.index.find(frame.key);
      return found == frame.index.end() ? frame.members.size() : found->second;
    }
    size_t at = 0;
    while (at < frame.members.size() && frame.members[at].first != frame.key) ++at;
    return at;
  }

  std::string_view what_;
  const JsonLimits& limits_;
  OrderedJson root_;
  std::vector<Frame> open_;
  size_t values_ = 0;
};

void append_integer(std::string& out, auto value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

void append_big_integer(std::string& out, const OrderedJson& value) {
  const auto& bytes = value.get_binary();
  GLINT_CHECK(bytes.has_subtype() && bytes.subtype() == kBigInteger);
  out.append(bytes.begin(), bytes.end());
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

}  // namespace

OrderedJson parse_python_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  // The library skips a byte order mark and takes NUL for the end of the text; Python does neither.
  if (text.starts_with("\xEF\xBB\xBF"))
    fail(ErrorKind::bad_input, what, ": not valid JSON: a byte order mark");
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    fail(ErrorKind::bad_input, what, ": not valid JSON: a NUL byte at offset ", nul);
  }
  DocumentBuilder builder(what, limits);
  OrderedJson::sax_parse(text, &builder);
  return builder.take();
}

std::string python_dumps(const OrderedJson& value) {
  std::string out;
  append_python_dumps(out, value);
  return out;
}

void append_python_dumps(std::string& out, const OrderedJson& value) {
  using Type = OrderedJson::value_t;
  const char* separator = "";
  switch (value.type()) {
    case Type::object:
      out += '{';
      for (const auto& [key, member] : value.get_ref<const OrderedJson::object_t&>()) {
        out += std::exchange(separator, ", ");
        append_quoted(out, key);
        out += ": ";
        append_python_dumps(out, member);
      }
      out += '}';
      break;
    case Type::array:
      out += '[';
      for (const auto& element : value) {
        out += std::exchange(separator, ", ");
        append_python_dumps(out, element);
      }
      out += ']';
      break;
    case Type::string:
      append_quoted(out, value.get_ref<const std::string&>());
      break;
    case Type::boolean:
      out += value.get<bool>() ? "true" : "false";
      break;
    case Type::number_integer:
      append_integer(out, value.get<int64_t>());
      break;
    case Type::number_unsigned:
      append_integer(out, value.get<uint64_t>());
      break;
    case Type::number_float:
      out += python_float_repr(value.get<double>());
      break;
    case Type::binary:
      append_big_integer(out, value);
      break;
    case Type::null:
    case Type::discarded:
      out += "null";
      break;
  }
}

void append_json_escaped(std::string& out, std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  for (const char byte : text) {
    switch (byte) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (const auto code = static_cast<unsigned char>(byte); code < 0x20) {
          out += "\\u00";
          out += kHex[code >> 4U];
          out += kHex[code & 15U];
        } else {
          out += byte;
        }
    }
  }
}

std::string python_float_repr(double value) {
  if (!std::isfinite(value))
    fail(ErrorKind::bad_input, "a number that is not finite cannot be written as JSON");
  std::array<char, 40> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  std::string_view text(buffer.data(), static_cast<size_t>(end - buffer.data()));

  std::string out;
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  // text is D[.DDD]e[+-]EE; take it apart.
  const size_t mark = text.find('e');
  int exponent = 0;
  const std::string_view exponent_text = text.substr(text[mark + 1] == '+' ? mark + 2 : mark + 1);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  std::string digits(1, text.front());
  if (mark > 2) digits += text.substr(2, mark - 2);
  const int count = static_cast<int>(digits.size());

  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out.append(".").append(digits, 1);
    out += exponent < 0 ? "e-" : "e+";
    const int magnitude = std::abs(exponent);
    if (magnitude < 10) out += '0';
    out += std::to_string(magnitude);
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
  } else if (count <= exponent + 1) {
    out.append(digits).append(static_cast<size_t>(exponent + 1 - count), '0').append(".0");
  } else {
    const auto whole = static_cast<size_t>(exponent) + 1;
    out.append(digits, 0, whole).append(".").append(digits, whole);
  }
  return out;
}

bool is_truthy(const OrderedJson& value) {
  using Type = OrderedJson::value_t;
  switch (value.type()) {
    case Type::boolean:
      return value.get<bool>();
    case Type::number_integer:
    case Type::number_unsigned:
    case Type::number_float:
      return value.get<double>() != 0.0;
    case Type::string:
      return !value.get_ref<const std::string&>().empty();
    case Type::object:
    case Type::array:
      return !value.empty();
    case Type::binary:
      return true;
    case Type::null:
    case Type::discarded:
      return false;
  }
  return false;
}

}  // namespace glint
