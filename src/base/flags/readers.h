// From the text of a flag to its value. A reader is called with the text and throws Error(bad_input or
// unsupported) with the reason alone: "invalid int value: 'x'", in argparse's words where scripts may look
// for them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace glint {

/// Digits with an optional sign, from `min` to `max`.
struct WholeNumber {
  int64_t min;
  int64_t max;
  int64_t operator()(std::string_view text) const;
};

/// "131072", "1k", "25.6k", "1m" (decimal: 1000, 25600, 1000000), "1K", "512K", "1M" (binary; no fractions),
/// likewise g, t, G, T; from `min` to `max`.
struct HumanNumber {
  int64_t min = 1;
  int64_t max = (int64_t{1} << 62) - 1;
  int64_t operator()(std::string_view text) const;
};

/// Whole seconds.
struct WholeSeconds {
  int64_t min;
  int64_t max;
  std::chrono::seconds operator()(std::string_view text) const;
  [[nodiscard]] std::string show(std::chrono::milliseconds value) const {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(value).count());
  }
};

/// A HumanNumber, or "auto" or "-1": nothing.
struct HumanNumberOrAuto {
  std::optional<int64_t> operator()(std::string_view text) const;
  [[nodiscard]] std::string show(const std::optional<int64_t>& value) const;
};

/// A decimal number; NaN and infinities are none. `wanted` says which ones `holds` accepts.
struct Number {
  bool (*holds)(double);
  std::string wanted;  // "above 0 and at most 1"
  double operator()(std::string_view text) const;
};

/// Any number as others write it: "4", "-1", "0.5", "8G"; the text as it is.
struct AnyNumber {
  std::string operator()(std::string_view text) const;
};

/// Any text but the empty one.
struct Text {
  std::string operator()(std::string_view text) const { return std::string(text); }
};

/// A text that `check` does not throw at.
struct CheckedText {
  void (*check)(std::string_view);
  std::string operator()(std::string_view text) const {
    check(text);
    return std::string(text);
  }
};

/// A value that others know and this program does not take: every text that begins so, and why.
struct RefusedChoice {
  std::string prefix;
  std::string reason;
};

/// One of some names. `fold`: case does not matter and '-' is '_'.
struct Choice {
  std::vector<std::string> names;
  std::vector<RefusedChoice> refused = {};
  bool fold = false;
  std::string operator()(std::string_view text) const;
};

/// What another function reads, with the names that completion offers. `show` gives the default's name.
template <class Value>
struct ReadBy {
  Value (*read)(std::string_view);
  std::vector<std::string> names;
  std::string first = {};  // shown as the default
  Value operator()(std::string_view text) const { return read(text); }
  [[nodiscard]] std::string show(const Value&) const { return first; }
};

/// "1", "true", "yes", "on" or "0", "false", "no", "off"; any case.
bool read_switch(std::string_view text);

/// "invalid choice: 'x' (choose from a, b)" as an Error.
[[noreturn]] void refuse_choice(std::string_view text, const std::vector<std::string>& names);

// What value_flag asks of a reader.

std::string number_shown(double value);

/// The value in its shortest words; nothing for a type that has none.
template <class Value>
std::string plain_text(const Value& value) {
  if constexpr (std::is_convertible_v<Value, std::string>) {
    return value;
  } else if constexpr (std::is_enum_v<Value>) {
    return std::to_string(static_cast<int>(value));
  } else if constexpr (std::is_floating_point_v<Value>) {
    return number_shown(value);
  } else if constexpr (std::is_integral_v<Value>) {
    return std::to_string(value);
  } else if constexpr (requires { value.count(); }) {
    return std::to_string(value.count());
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? plain_text(*value) : std::string();
  } else {
    return {};
  }
}

template <class Reader, class Value>
std::string shown_value(const Reader& reader, const Value& value) {
  if constexpr (requires { reader.show(value); }) {
    return reader.show(value);
  } else {
    return plain_text(value);
  }
}

template <class Reader>
std::vector<std::string> choices_of(const Reader& reader) {
  if constexpr (requires { reader.names; }) {
    return reader.names;
  } else {
    return {};
  }
}

}  // namespace glint
