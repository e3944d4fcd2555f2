// JSON as Python's json module reads and prints it, because prompt bytes and argument texts are defined by it
// (text layer, rules for the chat template and for argument values).
//
// An integer outside of int64 and uint64 keeps its digits: the reader stores them in the OrderedJson as a
// binary value with the subtype kBigInteger, and the printer writes them back. Such a value is no number for
// anyone who asks is_number(), so a field that wants a small number refuses it by type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace glint {

inline constexpr uint64_t kBigInteger = 0x676c696e74ULL;

/// Reads one document in time linear in its length, whatever the number of keys. Duplicate keys: the last
/// value wins, at the place of the first (refused instead if limits.refuse_duplicate_keys). Throws bad_input,
/// with `what` in front, on malformed text, invalid UTF-8, a lone surrogate, a number that is not finite, an
/// integer of more than 300 digits that fits no double, a leading byte order mark or a broken limit.
OrderedJson parse_python_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

/// json.dumps(value, ensure_ascii=False): separators ", " and ": ", floats by repr, non-ASCII as it is, only
/// `"`, `\` and control characters escaped. Throws bad_input for a float that is not finite.
std::string python_dumps(const OrderedJson& value);
void append_python_dumps(std::string& out, const OrderedJson& value);

/// The inside of a JSON string (no quotes around it), escaped as python_dumps does. Works piece by piece: the
/// escaped form of a text is the concatenation of the escaped forms of its pieces, if they are cut between
/// characters.
void append_json_escaped(std::string& out, std::string_view text);

/// repr(float): the shortest digits that read back as the same double; "1.0", "1e-07", "1e+16", "-0.0".
std::string python_float_repr(double value);

/// Python's truth value: false for null, false, 0, 0.0, "", [] and {}.
bool is_truthy(const OrderedJson& value);

}  // namespace glint
