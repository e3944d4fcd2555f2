// Typed access to the keys of a config.json, with errors that name the key, what stands there and what was
// expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace glint {

/// Reads from one JSON object; `what` ("config.json") and `prefix` ("rope_parameters.") go into errors. A key
/// that is missing or null counts as absent. All functions throw bad_input on a wrong type or a value out of
/// range.
class ConfigReader {
 public:
  ConfigReader(const Json& object, std::string_view what, std::string_view prefix = "");

  [[nodiscard]] bool has(const char* key) const { return find(key) != nullptr; }
  /// nullptr if the key is absent.
  [[nodiscard]] const Json* find(const char* key) const;

  [[nodiscard]] int64_t integer(const char* key, int64_t min, int64_t max) const;
  [[nodiscard]] int64_t integer_or(const char* key, int64_t fallback, int64_t min, int64_t max) const;
  /// A number above zero that float32 can hold.
  [[nodiscard]] double positive(const char* key) const;
  [[nodiscard]] double positive_or(const char* key, double fallback) const;
  [[nodiscard]] bool boolean_or(const char* key, bool fallback) const;
  /// A list of strings, each one of `choices`, exactly `count` of them.
  [[nodiscard]] std::vector<std::string> strings(const char* key, int64_t count,
                                                 const std::vector<std::string_view>& choices) const;

  /// The key is absent, or holds exactly this value; else unsupported.
  void expect_if_present(const char* key, const Json& expected) const;
  /// The key holds exactly this value; else unsupported.
  void expect(const char* key, const Json& expected) const;

  /// Throws `kind` with "what: key is FOUND, expected EXPECTED".
  template <class... Parts>
  [[noreturn]] void refuse(ErrorKind kind, std::string_view key, const Parts&... expected) const {
    fail(kind, what_, ": ", prefix_, key, " is ", found(key), ", expected ", expected...);
  }

 private:
  [[nodiscard]] const Json& required(const char* key) const;
  [[nodiscard]] std::string found(std::string_view key) const;

  const Json& object_;
  std::string what_;
  std::string prefix_;
};

}  // namespace glint
