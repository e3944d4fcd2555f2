#include "server/serve_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "engine/engine.h"
#include "text/python_json.h"

namespace glint {

namespace {

constexpr double kLargest = 0x1p62;

/// What the value of a flag is called in errors: scripts look for vLLM's words.
enum class IntegerKind { integer, integer_or_auto };

[[noreturn]] void refuse_integer(std::string_view flag, std::string_view text, std::string_view why,
                                 IntegerKind kind) {
  fail(ErrorKind::bad_input, "argument ", flag, ": invalid human_readable_int",
       kind == IntegerKind::integer_or_auto ? "_or_auto" : "", " value: '", text, "' (", why, ")");
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

int64_t parse_integer(std::string_view flag, std::string_view text, IntegerKind kind) {
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
    refuse_integer(flag, text, "expected a number such as 131072, 25.6k or 128K", kind);
  }
  if (!fraction_allowed && digits.find('.') != std::string_view::npos) {
    refuse_integer(flag, text,
                   "Decimals are not allowed with binary suffixes or without one; k, m, g and t are the "
                   "decimal suffixes",
                   kind);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  value = std::round(value * factor);
  if (error != std::errc() || end != digits.data() + digits.size())
    refuse_integer(flag, text, "not a number", kind);
  if (value < 1 || value > kLargest) refuse_integer(flag, text, "expected at least 1, and below 2^62", kind);
  return static_cast<int64_t>(value);
}

}  // namespace

int64_t parse_human_integer(std::string_view flag, std::string_view text) {
  return parse_integer(flag, text, IntegerKind::integer);
}

std::optional<int64_t> parse_human_integer_or_auto(std::string_view flag, std::string_view text) {
  if (text == "auto" || text == "-1") return std::nullopt;
  return parse_integer(flag, text, IntegerKind::integer_or_auto);
}

void check_choice(std::string_view flag, std::string_view text, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return;
  std::string list;
  for (const std::string& choice : choices) list += (list.empty() ? "" : ", ") + choice;
  fail(ErrorKind::bad_input, "argument ", flag, ": invalid choice: '", text, "' (choose from ", list, ")");
}

OrderedJson parse_json_object_flag(std::string_view flag, std::string_view text) {
  if (text.empty()) return nullptr;
  OrderedJson value = parse_python_json(text, cat("argument ", flag));
  if (!value.is_object()) {
    fail(ErrorKind::bad_input, "argument ", flag, ": expected a JSON object, {\"name\": value, ...}");
  }
  return value;
}

std::vector<std::string> served_names(const std::vector<std::string>& names, const std::string& path) {
  std::vector<std::string> served;
  for (const std::string& name : names) {
    if (name.empty()) fail(ErrorKind::bad_input, "argument --served-model-name: a name must not be empty");
    if (std::find(served.begin(), served.end(), name) == served.end()) served.push_back(name);
  }
  if (served.empty()) served.push_back(path);
  return served;
}

int64_t speculative_tokens(std::string_view config_json, std::string_view method, std::string_view tokens) {
  OrderedJson config = parse_json_object_flag("--speculative-config", config_json);
  if (config.is_null()) config = OrderedJson::object();
  if (!method.empty()) config["method"] = method;
  if (!tokens.empty()) {
    if (tokens == "auto") {
      config["num_speculative_tokens"] = tokens;
    } else {
      config["num_speculative_tokens"] =
          parse_human_integer("--speculative-config.num_speculative_tokens", tokens);
    }
  }
  if (config.empty()) return 0;
  for (const auto& [key, value] : config.items()) {
    if (key != "method" && key != "num_speculative_tokens") {
      fail(ErrorKind::bad_input, "argument --speculative-config: unknown key ", key,
           "; known are method and num_speculative_tokens");
    }
  }
  const OrderedJson chosen = config.value("method", OrderedJson());
  if (chosen != "mtp" && chosen != "deepseek_mtp") {
    fail(ErrorKind::bad_input,
         "argument --speculative-config.method: ", chosen.is_null() ? "missing" : chosen.dump(),
         "; this model drafts with mtp");
  }
  const OrderedJson count = config.value("num_speculative_tokens", OrderedJson());
  if (count == "auto") return kSpeculativeTokensAuto;
  if (!count.is_number_integer() || count < 1 || count > kSpeculativeTokensMax) {
    fail(ErrorKind::bad_input,
         "argument --speculative-config.num_speculative_tokens: ", count.is_null() ? "missing" : count.dump(),
         "; expected 1 to ", kSpeculativeTokensMax, ", or auto");
  }
  return count.get<int64_t>();
}

}  // namespace glint
