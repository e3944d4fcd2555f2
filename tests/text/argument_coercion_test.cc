// Typed argument values. Expected forms follow Python's int(), float() and json for the same texts.
#include "text/argument_coercion.h"

#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "text/python_json.h"

namespace glint::test {
namespace {

JsonTypes types_of(const std::string& schema, const std::string& root = "{}") {
  return schema_types(parse_python_json(schema, "schema"), parse_python_json(root, "root"));
}

TEST(SchemaTypes, OwnTypes) {
  EXPECT_EQ(types_of(R"({"type": "integer"})"), kTypeInteger);
  EXPECT_EQ(types_of(R"({"type": ["string", "null"]})"), kTypeString | kTypeNull);
  EXPECT_EQ(types_of(R"({"type": " Int64 "})"), kTypeInteger);
  EXPECT_EQ(types_of(R"({"type": ["str", "dict", "list", "bool", "double", 3]})"),
            kTypeString | kTypeObject | kTypeArray | kTypeBoolean | kTypeNumber);
  EXPECT_EQ(types_of(R"({"type": "any"})"), kTypeOther);
  EXPECT_EQ(types_of(R"({"enum": [1, 2.5, "a", null, true, [], {}, 99999999999999999999]})"),
            kTypeInteger | kTypeNumber | kTypeString | kTypeNull | kTypeBoolean | kTypeArray | kTypeObject);
  EXPECT_EQ(types_of(R"({"type": "string", "enum": ["a"]})"), kTypeString);
  for (const char* silent :
       {"{}", "true", "null", "[]", R"({"description": "x"})", R"({"type": 3})", R"({"enum": []})"}) {
    EXPECT_EQ(types_of(silent), kTypeString) << silent;
  }
}

TEST(SchemaTypes, Branches) {
  EXPECT_EQ(
      types_of(
          R"({"anyOf": [{"type": "string"}, {"oneOf": [{"type": "null"}, {"allOf": [{"type": "array"}]}]}]})"),
      kTypeString | kTypeNull | kTypeArray);
  EXPECT_EQ(types_of(R"({"anyOf": [{"type": "integer"}, {"description": "says nothing"}]})"),
            kTypeInteger | kTypeString);
}

TEST(SchemaTypes, LocalReferences) {
  const std::string root =
      R"({"$defs": {"N": {"type": "integer"}, "a/b": {"$ref": "#/$defs/N"}, "L": {"$ref": "#/$defs/L"},
                               "A": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]}, "B": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "integer"}]},
                               "T": {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}}, "definitions": {"O": {"type": "object"}}})";
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/N"})", root), kTypeInteger);
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/a~1b"})", root), kTypeInteger);
  EXPECT_EQ(types_of(R"({"$ref": "#/definitions/O"})", root), kTypeObject);
  EXPECT_EQ(types_of(R"({"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]})", root),
            kTypeInteger | kTypeNull);
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/T"})", root), +kTypeNull);
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/A"})", root), kTypeInteger | kTypeNull);
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/B"})", root), kTypeInteger | kTypeNull);
  for (const char* nowhere : {R"({"$ref": "#/$defs/L"})", R"({"$ref": "#/$defs/none"})",
                              R"({"$ref": "http://x/y"})", R"({"$ref": "#x"})", R"({"$ref": 3})"}) {
    EXPECT_EQ(types_of(nowhere, root), kTypeString) << nowhere;
  }
}

TEST(SchemaTypes, HostileSchemasCostLinearTime) {
  // A chain in which each level refers to the next twice: 2^20000 paths; and many references into one
  // big object.
  std::string root = R"({"properties": {"deep": {"$ref": "#/$defs/d0"})";
  for (int i = 0; i < 20000; ++i) root += cat(", \"p", i, R"(": {"$ref": "#/$defs/d)", i, R"("})");
  root += R"(}, "$defs": {)";
  for (int i = 0; i < 20000; ++i) {
    root += cat(i == 0 ? "" : ", ", "\"d", i, "\": ");
    root += i < 19999 ? cat(R"({"anyOf": [{"$ref": "#/$defs/d)", i + 1, R"("}, {"$ref": "#/$defs/d)", i + 1,
                            R"("}]})")
                      : std::string(R"({"type": "array"})");
  }
  ToolDefinition tool;
  tool.name = "f";
  tool.parameters = parse_python_json(root + "}}", "root");
  const std::clock_t start = std::clock();
  const ToolSet tools(std::span(&tool, 1));
  EXPECT_EQ(tools.types_of("f", "deep"), kTypeArray);
  EXPECT_EQ(tools.types_of("f", "p19999"), kTypeArray);
  EXPECT_EQ(tools.types_of("f", "other"), kTypeString);
  EXPECT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC);
}

TEST(CoerceArgument, EachType) {
  struct Row {
    const char* text;
    int types;
    const char* json;
  };
  const std::vector<Row> rows = {
      {"null", kTypeNull | kTypeString, "null"},
      {"NULL", kTypeNull | kTypeString, "null"},
      {" null", kTypeNull | kTypeString, "\" null\""},
      {"null", kTypeString, "\"null\""},
      {" +1_000 ", kTypeInteger, "1000"},
      {"-007", kTypeInteger, "-7"},
      {"-0", kTypeInteger, "0"},
      {"123456789012345678901234567890", kTypeInteger, "123456789012345678901234567890"},
      {"3.0", kTypeInteger, "3.0"},
      {"3.50", kTypeInteger, "3.5"},
      {"1e2", kTypeInteger, "100.0"},
      {"1__0", kTypeInteger, "\"1__0\""},
      {"_1", kTypeInteger, "\"_1\""},
      {"1_", kTypeInteger, "\"1_\""},
      {"0x10", kTypeInteger, "\"0x10\""},
      {"", kTypeInteger, "\"\""},
      {"true", kTypeInteger, "true"},
      {"12.50", kTypeNumber, "12.5"},
      {"3.0", kTypeNumber, "3"},
      {"1e5", kTypeNumber, "100000"},
      {"-0.0", kTypeNumber, "0"},
      {".5", kTypeNumber, "0.5"},
      {"5.", kTypeNumber, "5"},
      {"1_0.5", kTypeNumber, "10.5"},
      {"1e-7", kTypeNumber, "1e-07"},
      {"1e-999", kTypeNumber, "0"},
      {"0e999999999999999999999", kTypeNumber, "0"},
      {"1e22", kTypeNumber, "10000000000000000000000"},
      {"1e999", kTypeNumber, "\"1e999\""},
      {"1e99999999999999999999", kTypeNumber, "\"1e99999999999999999999\""},
      {"inf", kTypeNumber, "\"inf\""},
      {"nan", kTypeNumber, "\"nan\""},
      {"NaN", kTypeNumber, "\"NaN\""},
      {"12345678901234567890", kTypeNumber, "12345678901234567890"},
      {"0.1234567890123456789", kTypeNumber, "0.1234567890123456789"},
      {"+0.1234567890123456789", kTypeNumber, "0.12345678901234568"},
      {"7", kTypeInteger | kTypeNumber, "7"},
      {"7.5", kTypeInteger | kTypeNumber, "7.5"},
      {"7", kTypeNumber | kTypeString, "7"},
      {" TRUE ", kTypeBoolean, "true"},
      {"1", kTypeBoolean, "true"},
      {"False", kTypeBoolean, "false"},
      {"0", kTypeBoolean, "false"},
      {"maybe", kTypeBoolean, "\"maybe\""},
      {"2", kTypeBoolean, "2"},
      {R"({"b":1.50,"a":[1,2]})", kTypeObject, R"({"b": 1.5, "a": [1, 2]})"},
      {R"([1e999])", kTypeArray, R"("[1e999]")"},
      {R"({"a": 18446744073709551616})", kTypeObject, R"({"a": 18446744073709551616})"},
      {"5", kTypeObject, "5"},
      {"{'a': 1}", kTypeObject, "\"{'a': 1}\""},
      {"{bad", kTypeObject | kTypeString, "\"{bad\""},
      {R"({"a":1})", kTypeString, R"("{\"a\":1}")"},
      {R"({"a":1})", kTypeOther, R"({"a": 1})"},
      {"plain", kTypeOther, "\"plain\""},
      {"ü\n\"", kTypeString, R"("ü\n\"")"}};
  for (const Row& row : rows) {
    EXPECT_EQ(coerce_argument(row.text, static_cast<JsonTypes>(row.types)), row.json)
        << row.text << " " << row.types;
  }
}

TEST(CoerceArgument, OnlyPureStringsAreCertainBeforeTheirEnd) {
  EXPECT_TRUE(is_always_string(kTypeString));
  for (const int types : {kTypeString | kTypeNull, kTypeString | kTypeInteger, +kTypeOther, +kTypeObject}) {
    EXPECT_FALSE(is_always_string(static_cast<JsonTypes>(types)));
  }
}

}  // namespace
}  // namespace glint::test
