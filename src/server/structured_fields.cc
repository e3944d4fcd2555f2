#include "server/structured_fields.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "server/api_error.h"
#include "text/python_json.h"

namespace glint {

namespace {

using Kind = GrammarSource::Kind;

constexpr size_t kChoicesMax = 4096;
constexpr size_t kChoiceBytesMax = size_t{1} << 20;  // of all together
constexpr const char* kAnyObject = R"({"type": "object", "additionalProperties": true})";

StructuredOutput output_of(Kind kind, std::string text, std::string field) {
  StructuredOutput out;
  out.source.kind = kind;
  out.source.text = std::move(text);
  out.field = std::move(field);
  return out;
}

/// A schema as an object, a boolean, or its text.
StructuredOutput schema_output(const OrderedJson& schema, const std::string& field) {
  if (schema.is_string()) return output_of(Kind::json_schema, schema.get<std::string>(), field);
  if (!schema.is_object() && !schema.is_boolean())
    refuse_field(field, field, " must be a JSON schema: an object, or its text");
  return output_of(Kind::json_schema, python_dumps(schema), field);
}

StructuredOutput text_output(Kind kind, const OrderedJson& text, const std::string& field) {
  if (!text.is_string()) refuse_field(field, field, " must be a string");
  if (text.get_ref<const std::string&>().empty())
    refuse_field(field, field, " must not be empty; leave it out");
  return output_of(kind, text.get<std::string>(), field);
}

/// A string literal of a grammar.
std::string literal_of(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

StructuredOutput choice_output(const OrderedJson& choices, const std::string& field) {
  if (!choices.is_array() || choices.empty())
    refuse_field(field, field, " must be a list of strings, not empty");
  if (choices.size() > kChoicesMax) refuse_field(field, field, " may hold at most ", kChoicesMax, " strings");
  std::string grammar = "root ::= ";
  for (const OrderedJson& choice : choices) {
    if (!choice.is_string()) refuse_field(field, field, " must be a list of strings");
    if (grammar.size() > kChoiceBytesMax)
      refuse_field(field, field, " is longer than ", kChoiceBytesMax, " bytes");
    if (&choice != &choices.front()) grammar += " | ";
    grammar += literal_of(choice.get_ref<const std::string&>());
  }
  return output_of(Kind::ebnf, std::move(grammar), field);
}

std::optional<StructuredOutput> response_format(Fields& fields) {
  const OrderedJson* format = fields.object("response_format");
  if (format == nullptr) return std::nullopt;
  const std::string field = "response_format";
  const auto type = format->find("type");
  if (type == format->end() || !type->is_string()) {
    refuse_field(field, "response_format needs a type: text, json_object or json_schema.");
  }
  if (*type == "text") return std::nullopt;
  if (*type == "json_object") return output_of(Kind::json_schema, kAnyObject, field);
  if (*type != "json_schema") {
    refuse_field(field, "response_format of type ", shortened(dump_json(*type)),
                 " is not supported; use text, json_object or json_schema.");
  }
  const auto wrapped = format->find("json_schema");
  if (wrapped == format->end() || !wrapped->is_object()) {
    refuse_field(field, "response_format of type json_schema needs a json_schema object.");
  }
  const auto schema = wrapped->find("schema");
  if (schema == wrapped->end() || schema->is_null()) {
    refuse_field(field, "response_format of type json_schema needs json_schema.schema.");
  }
  return schema_output(*schema, "response_format.json_schema.schema");
}

/// vLLM's switches: those that would change the form are not here.
constexpr const char* kSwitches[] = {"disable_any_whitespace", "disable_additional_properties",
                                     "whitespace_pattern"};
constexpr std::string_view kForms[] = {"json", "json_object", "regex", "choice", "grammar", "structural_tag"};
constexpr const char* kFormsAdvice = "use json, json_object, regex, choice or grammar";

void check_keys(const OrderedJson& object, const std::string& place) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(std::begin(kForms), std::end(kForms), key) != std::end(kForms)) continue;
    if (key == "disable_fallback") continue;  // there is nothing to fall back to
    const std::string field = place + shortened(key);
    if (std::find(std::begin(kSwitches), std::end(kSwitches), key) == std::end(kSwitches))
      refuse_field(field, field, " is not known; ", kFormsAdvice);
    if (!value.is_null() && value != false) refuse_field(field, field, " is not supported; leave it out");
  }
}

/// One entry for each that is asked for.
void add_outputs(const OrderedJson& object, const std::string& place, std::vector<StructuredOutput>& out) {
  check_keys(object, place);
  const size_t before = out.size();
  const auto asked = [&](const char* name) -> const OrderedJson* {
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  };
  const auto path = [&](const char* name) { return place + name; };
  if (const OrderedJson* json = asked("json")) out.push_back(schema_output(*json, path("json")));
  if (const OrderedJson* any = asked("json_object"); any != nullptr && *any != false) {
    if (!any->is_boolean()) refuse_field(path("json_object"), path("json_object"), " must be true or false");
    out.push_back(output_of(Kind::json_schema, kAnyObject, path("json_object")));
  }
  if (const OrderedJson* regex = asked("regex"))
    out.push_back(text_output(Kind::regex, *regex, path("regex")));
  if (const OrderedJson* choice = asked("choice")) out.push_back(choice_output(*choice, path("choice")));
  if (const OrderedJson* ebnf = asked("grammar"))
    out.push_back(text_output(Kind::ebnf, *ebnf, path("grammar")));
  if (asked("structural_tag") != nullptr) {
    refuse_field(path("structural_tag"), path("structural_tag"), " is not supported; ", kFormsAdvice);
  }
  if (out.size() == before)
    refuse_field("structured_outputs", "structured_outputs asks for no form; ", kFormsAdvice);
}

void add_top_level(Fields& fields, std::vector<StructuredOutput>& out) {
  if (const OrderedJson* json = fields.get("guided_json")) out.push_back(schema_output(*json, "guided_json"));
  if (const OrderedJson* json = fields.get("json_schema")) out.push_back(schema_output(*json, "json_schema"));
  if (const OrderedJson* choice = fields.get("guided_choice"))
    out.push_back(choice_output(*choice, "guided_choice"));
  constexpr std::pair<const char*, Kind> kTexts[] = {{"guided_regex", Kind::regex},
                                                     {"regex", Kind::regex},
                                                     {"guided_grammar", Kind::ebnf},
                                                     {"ebnf", Kind::ebnf}};
  for (const auto& [name, kind] : kTexts) {
    if (const OrderedJson* text = fields.get(name)) out.push_back(text_output(kind, *text, name));
  }
}

}  // namespace

void check_structured_types(Fields& fields) {
  for (const char* name : {"response_format", "structured_outputs"}) static_cast<void>(fields.object(name));
}

std::optional<StructuredOutput> parse_structured_output(Fields& fields) {
  std::vector<StructuredOutput> asked;
  if (auto format = response_format(fields)) asked.push_back(std::move(*format));
  if (const OrderedJson* object = fields.object("structured_outputs")) {
    add_outputs(*object, "structured_outputs.", asked);
  }
  add_top_level(fields, asked);
  if (asked.size() > 1) {
    refuse_field(asked[1].field,
                 "an answer can have one form only, the request asks for two: ", asked[0].field, " and ",
                 asked[1].field);
  }
  if (asked.empty()) return std::nullopt;
  return std::move(asked.front());
}

}  // namespace glint
