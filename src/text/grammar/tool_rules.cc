#include "text/grammar/tool_rules.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "text/argument_coercion.h"
#include "text/grammar/schema_check.h"
#include "text/python_json.h"
#include "text/python_text.h"

namespace glint {

namespace {

using Kind = ArgumentRule::Kind;
using SourceKind = GrammarSource::Kind;

const OrderedJson* member(const OrderedJson& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

/// The same JSON value, as JSON Schema compares: 1 equals 1.0.
bool same_value(const std::string& text, const OrderedJson& value) {
  try {
    return parse_python_json(text, "value") == value;
  } catch (const Error&) {
    return false;
  }
}

/// The texts that become exactly one of these values.
std::vector<std::string> texts_of(const OrderedJson& values, JsonTypes types) {
  std::vector<std::string> texts;
  for (const OrderedJson& value : values) {
    std::string text = value.is_string() ? value.get<std::string>() : python_dumps(value);
    if (!same_value(coerce_argument(text, types), value)) continue;
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  return texts;
}

bool mentions_reference(const OrderedJson& value) {
  if (value.is_object() && value.contains("$ref")) return true;
  return value.is_structured() && std::any_of(value.begin(), value.end(), mentions_reference);
}

/// The schema as one that stands alone.
std::string standing_alone(OrderedJson schema, const OrderedJson& parameters) {
  if (mentions_reference(schema) && schema.is_object()) {
    for (const char* name : {"$defs", "definitions"}) {
      if (const OrderedJson* shared = member(parameters, name)) schema[name] = *shared;
    }
  }
  return python_dumps(schema);
}

std::shared_ptr<const CompiledGrammar> try_compile(GrammarCache& grammars, const GrammarSource& source) {
  try {
    return grammars.get(source);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    return nullptr;
  }
}

/// A regular expression for the whole text, for one that may be found anywhere in it; "" if that is not to be
/// had.
std::string whole_pattern(std::string pattern) {
  int depth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' || c == '[') {
      if (c == '[')
        i = std::min(pattern.find(']', i + 2), pattern.size());
      else
        ++i;
      continue;
    }
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == '|' && depth == 0) return "";  // each alternative has anchors of its own
  }
  const bool begins = pattern.starts_with('^');
  const bool ends = pattern.ends_with('$') && !pattern.ends_with("\\$");
  if (ends) pattern.pop_back();
  if (begins) pattern.erase(0, 1);
  return (begins ? "" : "[\\s\\S]*") + pattern + (ends ? "" : "[\\s\\S]*");
}

/// A text of so many characters. Bounds that nobody could count are left out.
GrammarSource text_of_length(int64_t least, int64_t most) {
  if (least > kMinLengthMax) least = 0;
  if (most > kMaxLengthMax) most = -1;
  const std::string limit = most < 0 ? "" : cat("[max_chars=", most, "]");
  const std::string first = least == 0 ? "" : cat("any{", least, "} ");
  return {SourceKind::ebnf, cat("root", limit, " ::= ", first, "any*\nany ::= [\\u0000-\\U0010ffff]\n")};
}

/// The rule of a value that is a string whatever it says.
void set_string_rule(const OrderedJson& schema, GrammarCache& grammars, ArgumentRule& rule) {
  const auto count = [&](const char* name) {
    const OrderedJson* value = member(schema, name);
    return value != nullptr && value->is_number_unsigned() ? value->get<int64_t>() : int64_t{-1};
  };
  const int64_t least = std::max<int64_t>(0, count("minLength"));
  const int64_t most = count("maxLength");
  if (const OrderedJson* wanted = member(schema, "pattern"); wanted != nullptr && wanted->is_string()) {
    const std::string pattern = whole_pattern(wanted->get<std::string>());
    if (!pattern.empty()) rule.grammar = try_compile(grammars, {SourceKind::regex, pattern});
  } else if (least > 0 || most > 0) {
    if (most < 0 || least <= most) rule.grammar = try_compile(grammars, text_of_length(least, most));
  } else if (most == 0) {
    rule.grammar = try_compile(grammars, {SourceKind::ebnf, "root ::= \"\""});
  }
  if (rule.grammar) rule.kind = Kind::grammar;
}

std::string types_schema(JsonTypes types) {
  OrderedJson names = OrderedJson::array();
  constexpr std::pair<JsonTypes, const char*> kNames[] = {{kTypeNull, "null"},     {kTypeInteger, "integer"},
                                                          {kTypeNumber, "number"}, {kTypeBoolean, "boolean"},
                                                          {kTypeObject, "object"}, {kTypeArray, "array"}};
  for (const auto& [type, name] : kNames) {
    if ((types & type) != 0) names.push_back(name);
  }
  return dump_json(OrderedJson{{"type", names}, {"additionalProperties", true}});
}

void set_json_rule(const OrderedJson& schema, const OrderedJson& parameters, JsonTypes types,
                   GrammarCache& grammars, ArgumentRule& rule) {
  rule.grammar = try_compile(grammars, {SourceKind::json_schema, standing_alone(schema, parameters), true});
  if (!rule.grammar)
    rule.grammar = try_compile(grammars, {SourceKind::json_schema, types_schema(types), true});
  if (rule.grammar) rule.kind = Kind::grammar;
}

bool is_trimmed(const std::string& text) {
  return python_strip(text).size() == text.size();
}

ToolRule tool_rule(const ToolDefinition& tool, GrammarCache& grammars) {
  ToolRule rule{tool.name, {}, false};
  const OrderedJson& parameters = tool.parameters;
  if (!parameters.is_object()) return rule;
  std::set<std::string> required;
  if (const OrderedJson* names = member(parameters, "required"); names != nullptr && names->is_array()) {
    for (const OrderedJson& name : *names) {
      if (name.is_string() && is_trimmed(name.get_ref<const std::string&>()))
        required.insert(name.get<std::string>());
    }
  }
  const OrderedJson* properties = member(parameters, "properties");
  if (properties != nullptr && properties->is_object()) {
    for (const auto& [key, schema] : properties->get_ref<const OrderedJson::object_t&>()) {
      if (!is_trimmed(key)) continue;  // the parser would not give it back
      rule.arguments.push_back(argument_rule(key, schema, parameters, grammars));
      rule.arguments.back().required = required.erase(key) > 0;
    }
  }
  for (const std::string& key : required) rule.arguments.push_back({key, true, Kind::any_text, {}, nullptr});
  const OrderedJson* more = member(parameters, "additionalProperties");
  const bool may_have_more = more == nullptr ? properties == nullptr : *more != false;
  rule.any_key = rule.arguments.empty() && may_have_more;
  return rule;
}

}  // namespace

namespace {

/// A lone branch of anyOf, oneOf or allOf says what the schema around it says.
const OrderedJson& without_lone_branches(const OrderedJson& schema) {
  const OrderedJson* at = &schema;
  for (bool found = true; found;) {
    found = false;
    for (const char* name : {"anyOf", "oneOf", "allOf"}) {
      const OrderedJson* branches = member(*at, name);
      if (branches == nullptr || !branches->is_array() || branches->size() != 1) continue;
      if (!branches->front().is_object() || member(*at, "enum") != nullptr || member(*at, "const") != nullptr)
        continue;
      at = &branches->front();
      found = true;
      break;
    }
  }
  return *at;
}

}  // namespace

ArgumentRule argument_rule(const std::string& key, const OrderedJson& whole, const OrderedJson& parameters,
                           GrammarCache& grammars) {
  ArgumentRule rule{key, false, Kind::any_text, {}, nullptr};
  const OrderedJson& schema = without_lone_branches(whole);
  if (!schema.is_object()) return rule;
  const JsonTypes types = schema_types(whole, parameters);  // as the parser takes them
  const OrderedJson* constant = member(schema, "const");
  const OrderedJson* values = member(schema, "enum");
  if (constant != nullptr)
    rule.texts = texts_of(OrderedJson::array({*constant}), types);
  else if (values != nullptr && values->is_array())
    rule.texts = texts_of(*values, types);
  if (!rule.texts.empty()) {
    rule.kind = Kind::one_of;
  } else if (types == kTypeString) {
    set_string_rule(schema, grammars, rule);
  } else if ((types & (kTypeOther | kTypeString)) == 0) {
    set_json_rule(schema, parameters, types, grammars, rule);
  }
  return rule;
}

std::vector<ToolRule> make_tool_rules(std::span<const ToolDefinition> tools, std::string_view only,
                                      GrammarCache& grammars) {
  std::vector<ToolRule> rules;
  for (const ToolDefinition& tool : tools) {
    if (!only.empty() && tool.name != only) continue;
    const bool known =
        std::any_of(rules.begin(), rules.end(), [&](const ToolRule& rule) { return rule.name == tool.name; });
    if (!known) rules.push_back(tool_rule(tool, grammars));
  }
  return rules;
}

}  // namespace glint
