#include "text/grammar/grammar_limits.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <regex>
#include <string>

#include "../support/expect_error.h"
#include "base/json.h"
#include "text/grammar/schema_check.h"
#include "text/grammar/schema_form.h"

namespace glint {
namespace {

TEST(GrammarLimits, RepetitionsAreWrittenOut) {
  EXPECT_EQ(count_positions("abc", true), 3);
  EXPECT_EQ(count_positions("a{3}b", true), 4);
  EXPECT_EQ(count_positions("(ab){2,5}", true), 10);
  EXPECT_EQ(count_positions("((ab){10}c){10}", true), 210);
  EXPECT_EQ(count_positions("[xy]{4}\\{2}", true), 7) << "an escaped brace counts nothing";
  EXPECT_EQ(count_positions("x{2,}y*", true), 3);
  EXPECT_EQ(count_positions("[^x]{3}.", true), 4 * kWidePosition);
  EXPECT_EQ(count_positions("(a{9999}){9999}{9999}", true), 2 * kSchemaPositionsMax);
  EXPECT_EQ(count_positions("a){3}((", true), 4) << "brackets that do not match are the library's concern";
  EXPECT_EQ(count_positions("root ::= part{3} \"ab\"", false), 4 * kRulePosition + 4);
}

TEST(GrammarLimits, BoundedStringsAreCounted) {
  const std::string loose = R"([^\"\\\r\n])";
  const std::string printed =
      "root ::= ((\"\\\"\" c{0, 90} \"\\\"\") | c{2, 3} | c{5, -1} | d{0, 90})\nc ::= ((" + loose +
      "))\nd ::= (([a]))\n";
  const std::string bounded = bound_values(printed);
  EXPECT_EQ(bounded.find(loose), std::string::npos) << "raw control characters are no JSON";
  EXPECT_NE(bounded.find("\"\\\"\" json_characters_0_90 \"\\\"\""), std::string::npos) << bounded;
  EXPECT_NE(bounded.find("\njson_characters_0_90[max_chars=90] ::= "), std::string::npos) << bounded;
  EXPECT_NE(bounded.find("json_character{2, 3}"), std::string::npos) << "few are written out";
  EXPECT_NE(bounded.find("\njson_characters_5_any ::= (json_character{5, 5} ["), std::string::npos)
      << bounded;
  EXPECT_NE(bounded.find("d{0, 90}"), std::string::npos) << "other rules stay";
  const std::string odd = bound_values("root ::= (c \"gr\\xf6\\xdfe\\\\x41\")\nc ::= ((" + loose + "))\n");
  EXPECT_NE(odd.find(R"("gr\u00f6\u00dfe\\x41")"), std::string::npos) << odd;
  EXPECT_EQ(bound_values("root ::= (d{0, 90})\nd ::= (([a]))\n"), "root ::= (d{0, 90})\nd ::= (([a]))\n");
  const std::string literal =
      "root ::= (\"c{5, -1} \\\"([eE] s x_digits{1, -1})\" c)\nc ::= ((" + loose + "))\n";
  EXPECT_EQ(bound_values(literal).find("(\"c{5, -1} \\\"([eE] s x_digits{1, -1})\" c)"), 9U)
      << "literals stay";
  EXPECT_EQ(bound_values("root ::= (\"\" | ([eE] s n_digits{1, -1}))\n"),
            "root ::= (\"\" | ([eE] s (([0-9]) | ([0-9] [0-9]) | ([12] [0-9] [0-9]))))\n");
}

TEST(GrammarLimits, TooLargeIsRefusedBeforeAnythingIsBuilt) {
  expect_error([] { check_regex_text(std::string(5000, 'a')); }, {"4096"});
  expect_error([] { check_regex_text("(a{1000}){1000}"); }, {"too large"});
  expect_error([] { check_regex_text("((((a{99}){99}){99}){99}){99}"); }, {"too large"});
  expect_error([] { check_grammar_text("root ::= (\"a\"{1000} \"b\"){1000}"); }, {"too large"});
  expect_error([] { check_grammar_text(std::string(70'000, ' ')); }, {"65536"});
  check_regex_text("(a{100}){100}");
  expect_error([] { check_regex_text("[^x]{5000}"); }, {"wide class"});
}

void expect_refused(const std::string& schema, const std::string& words) {
  expect_error([&] { check_schema_text(schema, false); }, {words});
}

TEST(SchemaCheck, NamesThePlace) {
  expect_refused(R"({"type": "object", "properties": {"a": {"not": {}}}})",
                 "#/properties/a: not cannot be enforced");
  expect_refused(R"({"items": {"$ref": "#/$defs/x"}})", "#/items/$ref: \"#/$defs/x\" leads nowhere");
  expect_refused(R"({"$ref": "https://example.com/schema"})", "leads nowhere");
  expect_refused(
      R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})",
      "leads back to itself");
  expect_refused(R"({"anyOf": [{"type": "string"}], "minLength": 3})", "minLength beside anyOf");
  expect_refused(R"({"enum": ["a", 1], "type": "string"})", "is not of the type beside it");
  expect_refused(R"({"type": "array", "uniqueItems": true})", "uniqueItems cannot be enforced");
  expect_refused(R"({"type": "string", "maxLength": 10000000})", "at most 1000000");
  expect_refused(R"({"type": "string", "pattern": "(a{1000}){1000}"})", "too large");
  expect_refused(R"({"required": "a"})", "expected a list of names");
  expect_refused(R"(5)", "must be an object or a boolean");
  expect_refused(R"({"type": )", "the schema");
  check_schema_text(
      R"({"type": "array", "uniqueItems": false, "title": "x", "default": 3, "x-mine": {"not": 1}})", false);
  check_schema_text(R"({"enum": ["a"], "type": "string", "description": "d"})", false);
  check_schema_text(R"({"type": "object", "properties": {"a": {"not": {}}}})", true);
}

std::string form_of(const std::string& schema, bool lenient = false) {
  return enforceable_schema(schema, lenient);
}

TEST(SchemaForm, RequiredNamesAreDeclared) {
  EXPECT_EQ(form_of(R"({"type":"object","properties":{"a":{"type":"null"}},"required":["a","b"]})"),
            R"({"type":"object","properties":{"a":{"type":"null"},"b":{}},"required":["a","b"]})");
  EXPECT_EQ(
      form_of(R"({"type":"object","required":["x"],"additionalProperties":{"type":"null"}})"),
      R"({"type":"object","required":["x"],"additionalProperties":{"type":"null"},"properties":{"x":{"type":"null"}}})");
  EXPECT_EQ(form_of(R"({"items":{"anyOf":[{"type":"object","required":["x"]}]}})"),
            R"({"items":{"anyOf":[{"type":"object","required":["x"],"properties":{"x":{}}}]}})");
  const auto refused = [](const std::string& schema, const std::string& words) {
    expect_error([&] { form_of(schema); }, {words});
  };
  refused(R"({"type":"object","required":["x"],"additionalProperties":false})",
          "additionalProperties forbids it");
  refused(R"({"$defs":{"d":{"required":["x"]}}})", "the schema at #/$defs/d: required names \"x\"");
  refused(R"({"type":"object","required":["x"],"patternProperties":{"^x":{}}})", "beside patternProperties");
  refused(R"({"properties":{"a":{}},"propertyNames":{"maxLength":2}})", "propertyNames beside properties");
  refused(R"({"properties":{"a":{}},"patternProperties":{"^a":{}}})", "patternProperties beside properties");
  const std::string lenient = R"({"properties":{"a":{}},"required":["b"],"additionalProperties":false})";
  EXPECT_EQ(form_of(lenient, true), lenient);
}

TEST(SchemaForm, FormatsBecomePatterns) {
  const auto pattern = [](const std::string& format) {
    const Json form = parse_json(form_of(R"({"type":"string","format":")" + format + R"("})"), "the form");
    EXPECT_FALSE(form.contains("format"));
    return std::regex(form.at("pattern").get<std::string>(), std::regex::extended);
  };
  const auto expect = [](const std::regex& regex, bool whole, std::initializer_list<const char*> texts) {
    for (const char* text : texts) EXPECT_EQ(std::regex_match(text, regex), whole) << text;
  };
  expect(pattern("date"), true,
         {"2024-02-29", "2000-02-29", "1904-02-29", "2023-12-31", "9999-06-30", "2023-02-28"});
  expect(pattern("date"), false,
         {"2023-02-29", "1900-02-29", "2100-02-29", "2023-11-31", "2023-13-01", "2023-00-10", "2023-01-00",
          "0000-01-01"});
  expect(pattern("ipv4"), true, {"0.0.0.0", "255.255.255.255", "10.1.20.199"});
  expect(pattern("ipv4"), false, {"060.91.94.58", "256.1.1.1", "1.1.1", "1.1.1.1.1"});
  EXPECT_EQ(form_of(R"({"type":"string","format":"uuid"})"), R"({"type":"string","format":"uuid"})");
}

TEST(SchemaCheck, DepthAndSizeAreBounded) {
  std::string deep = "{}";
  for (int i = 0; i < 70; ++i) deep = R"({"items": )" + deep + "}";
  expect_refused(deep, "nested deeper");
  std::string wide = R"({"anyOf": [{})";
  for (int i = 0; i < 6000; ++i) wide += ", {}";
  expect_refused(wide + "]}", "parts");
  std::string values = R"({"enum": [0)";
  for (int i = 1; i < 12'000; ++i) values += ", " + std::to_string(i);
  expect_refused(values + "]}", "values");
}

}  // namespace
}  // namespace glint
