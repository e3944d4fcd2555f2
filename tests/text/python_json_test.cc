// Python's JSON and text rules. Expected forms were printed by Python 3.11.
#include "text/python_json.h"

#include <gtest/gtest.h>

#include <ctime>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"
#include "text/python_text.h"

namespace glint::test {
namespace {

std::string round_trip(const std::string& text) {
  return python_dumps(parse_python_json(text, "text"));
}

TEST(PythonJson, FloatsAsRepr) {
  const std::vector<std::pair<double, std::string>> forms = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {1.5, "1.5"},
      {-12.25, "-12.25"},
      {0.1, "0.1"},
      {100000.0, "100000.0"},
      {1e15, "1000000000000000.0"},
      {9999999999999998.0, "9999999999999998.0"},
      {1e16, "1e+16"},
      {1e22, "1e+22"},
      {1.25e100, "1.25e+100"},
      {0.0001, "0.0001"},
      {0.00012345, "0.00012345"},
      {0.00001, "1e-05"},
      {1.5e-7, "1.5e-07"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {123456789012345680.0, "1.2345678901234568e+17"},
      {3.141592653589793, "3.141592653589793"},
      {1e-323, "1e-323"},
      {12345678.9, "12345678.9"}};
  for (const auto& [value, text] : forms) EXPECT_EQ(python_float_repr(value), text);
  EXPECT_THROW(python_float_repr(std::numeric_limits<double>::infinity()), Error);
}

TEST(PythonJson, SeparatorsAndEscapes) {
  EXPECT_EQ(round_trip(R"({"a":[1,{"b":null}],"c":{},"d":[],"e":true})"),
            R"({"a": [1, {"b": null}], "c": {}, "d": [], "e": true})");
  EXPECT_EQ(round_trip(R"("\u00fc\ud83d\ude00/\/<>&'\u2028\u007f")"), "\"ü😀//<>&'\xE2\x80\xA8\x7F\"");
  EXPECT_EQ(round_trip(R"("\"\\\n\r\t\b\f\u0000\u001f")"), R"("\"\\\n\r\t\b\f\u0000\u001f")");
}

TEST(PythonJson, NumbersKeepTheirDigits) {
  for (const char* text :
       {"0", "-1", "9223372036854775807", "9223372036854775808", "18446744073709551615",
        "18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"}) {
    EXPECT_EQ(round_trip(text), text);
  }
  EXPECT_EQ(round_trip("-0"), "0");
  EXPECT_EQ(round_trip("1.50"), "1.5");
  EXPECT_EQ(round_trip("1E5"), "100000.0");
  EXPECT_EQ(round_trip("-0.0"), "-0.0");
  EXPECT_EQ(round_trip("1e-400"), "0.0");
  EXPECT_FALSE(parse_python_json("18446744073709551616", "n").is_number());
}

TEST(PythonJson, DuplicateKeysLastValueFirstPlace) {
  EXPECT_EQ(round_trip(R"({"a": 1, "b": 2, "a": 3})"), R"({"a": 3, "b": 2})");
  std::string many = "{\"k0\": -1";
  std::string once = "{\"k0\": 0";
  for (int i = 0; i < 40; ++i) {
    many += ", \"k" + std::to_string(i) + "\": " + std::to_string(i);
    if (i > 0) once += ", \"k" + std::to_string(i) + "\": " + std::to_string(i);
  }
  EXPECT_EQ(round_trip(many + "}"), once + "}");
  EXPECT_THROW(parse_python_json(R"({"a": 1, "a": 2})", "x", {.refuse_duplicate_keys = true}), Error);
}

TEST(PythonJson, RefusesWhatPythonRefusesAndWhatNobodyCanPrint) {
  for (const std::string& text :
       {std::string(""), std::string("{"), std::string("[1,]"), std::string("NaN"), std::string("Infinity"),
        std::string("1e999"), std::string("01"), std::string("1."), std::string("'a'"), std::string("\"\n\""),
        std::string("\"\\ud800\""), std::string("\"\\udc00\\ud800\""), std::string("\"\xFF\""),
        std::string("\xEF\xBB\xBF") + "1", std::string("1\0", 2), std::string("1\0 2", 4), std::string("1 2"),
        std::string("\xC2\xA0") + "1", std::string("nul")}) {
    EXPECT_THROW(parse_python_json(text, "text"), Error) << text;
  }
  EXPECT_EQ(round_trip(" \t\r\n1 \n"), "1");
}

TEST(PythonJson, LimitsHold) {
  EXPECT_THROW(parse_python_json(std::string(100000, '['), "deep"), Error);
  EXPECT_NO_THROW(parse_python_json(std::string(64, '[') + std::string(64, ']'), "deep"));
  EXPECT_THROW(parse_python_json(std::string(65, '[') + std::string(65, ']'), "deep"), Error);
  EXPECT_THROW(parse_python_json("[1,2,3]", "x", {.values_max = 3}), Error);
  EXPECT_THROW(parse_python_json(R"({"a":1,"b":2})", "x", {.keys_max = 1}), Error);
}

TEST(PythonJson, ManyKeysCostLinearTime) {
  std::string text = "{\"\": 0";
  for (int i = 0; i < 300000; ++i) text += ",\"" + std::to_string(i) + "\":0";
  const std::clock_t start = std::clock();
  EXPECT_EQ(parse_python_json(text + "}", "x").size(), 300001U);
  EXPECT_LT(std::clock() - start, 20 * CLOCKS_PER_SEC);
}

TEST(PythonJson, Truth) {
  for (const char* text : {"null", "false", "0", "0.0", "-0.0", "\"\"", "[]", "{}"}) {
    EXPECT_FALSE(is_truthy(parse_python_json(text, "x"))) << text;
  }
  for (const char* text :
       {"true", "1", "-1", "0.5", "\"false\"", "[0]", "{\"a\": 0}", "123456789012345678901234567890"}) {
    EXPECT_TRUE(is_truthy(parse_python_json(text, "x"))) << text;
  }
}

TEST(PythonText, WhiteSpaceIsPythons) {
  // [c for c in range(0x110000) if chr(c).isspace()]
  const std::vector<char32_t> spaces = {0x9,    0xA,    0xB,    0xC,    0xD,    0x1C,   0x1D,   0x1E,
                                        0x1F,   0x20,   0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002,
                                        0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A,
                                        0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  std::vector<char32_t> found;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (is_python_space(code)) found.push_back(code);
  }
  EXPECT_EQ(found, spaces);
  std::string blank;
  for (const char32_t code : spaces) append_utf8(blank, code);
  EXPECT_TRUE(is_blank(blank));
  EXPECT_EQ(python_strip(blank + "a" + blank + "ü" + blank), "a" + blank + "ü");
  EXPECT_EQ(python_lstrip(blank + "a "), "a ");
  EXPECT_EQ(python_rstrip(" ü" + blank), " ü");
  EXPECT_EQ(python_strip("\xE2\x80\x8B"), "\xE2\x80\x8B");  // zero width space is none
  EXPECT_EQ(python_strip(" \xFF "), "\xFF");
}

}  // namespace
}  // namespace glint::test
