// Reads the fields of a request's JSON object. Wrong types are collected and refused together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace glint {

/// Absent and null are the same everywhere: std::nullopt. A wrong type is noted and gives std::nullopt too.
class Fields {
 public:
  /// `object` outlives this. `path` stands in front of the names in errors ("body.").
  explicit Fields(const OrderedJson& object, std::string path = "body.");

  [[nodiscard]] std::optional<double> number(std::string_view name);
  /// Also 5.0; a number outside of int64 is a wrong type.
  [[nodiscard]] std::optional<int64_t> integer(std::string_view name);
  [[nodiscard]] std::optional<bool> boolean(std::string_view name);
  [[nodiscard]] std::optional<std::string> text(std::string_view name);
  [[nodiscard]] std::optional<std::vector<int64_t>> integers(std::string_view name);
  /// A string counts as a list of one.
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view name);
  [[nodiscard]] const OrderedJson* object(std::string_view name);

  /// The value, whatever its type; null pointer if absent or null.
  [[nodiscard]] const OrderedJson* get(std::string_view name) const;
  void wrong(std::string_view name, std::string_view expected);

  /// Throws ApiRefusal (400 "Bad Request", param "body.NAME") if a type was wrong; at most ten are listed.
  void check() const;

 private:
  struct Wrong {
    std::string param;
    std::string message;
  };
  const OrderedJson& object_;
  std::string path_;
  std::vector<Wrong> wrong_;
};

/// The error of one wrong place in the body.
[[noreturn]] void refuse_body(std::string param, std::string message);

/// `text`, or its beginning and "..." if it has more than 200 characters; never cut inside a character.
std::string shortened(std::string text);

}  // namespace glint
