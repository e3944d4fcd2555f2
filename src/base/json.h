// JSON at the borders: strict parsing with limits and one-line errors that name the place.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace glint {

using Json = nlohmann::json;
/// Keeps the order of keys; its lookup is linear, so use it only for small objects whose order matters.
using OrderedJson = nlohmann::ordered_json;

struct JsonLimits {
  int depth_max = 64;                   // nested arrays and objects
  size_t keys_max = 1U << 20;           // keys of one object
  size_t values_max = size_t{1} << 26;  // values in the document
  bool refuse_duplicate_keys = false;   // otherwise the last one wins, at the first one's place
};

/// Parses one document. `what` names it in errors ("config.json"). Throws bad_input with byte position and
/// reason on malformed text, invalid UTF-8 or a broken limit.
Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});
OrderedJson parse_ordered_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

/// Compact text; invalid UTF-8 inside strings becomes U+FFFD instead of an exception.
std::string dump_json(const Json& value);
std::string dump_json(const OrderedJson& value);

}  // namespace glint
