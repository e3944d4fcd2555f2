#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace glint {
namespace {

std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "x.json", limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Json, RefusesBadTextInOneLineThatNamesTheFile) {
  for (const char* text : {"{not json", "", "[1,]", "{\"a\":\"\xff\"}", "1 2", "{\"a\":01}"}) {
    const std::string message = refusal(text);
    EXPECT_EQ(message.rfind("x.json: not valid JSON: ", 0), 0U) << text << " -> " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Json, KeepsItsLimits) {
  const std::string bomb = std::string(100000, '[');
  EXPECT_NE(refusal(bomb).find("nested deeper than 64"), std::string::npos);
  EXPECT_NE(refusal("[[[1]]]", {.depth_max = 2}).find("nested deeper than 2"), std::string::npos);
  EXPECT_EQ(refusal("[[1]]", {.depth_max = 2}), "");
  EXPECT_NE(refusal(R"({"a":1,"b":2,"c":3})", {.keys_max = 2}).find("more than 2 keys"), std::string::npos);
  EXPECT_NE(refusal(R"({"a":1,"a":2})", {.refuse_duplicate_keys = true}).find("\"a\" stands twice"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"a":1,"b":{"a":2}})", {.refuse_duplicate_keys = true}), "");
  EXPECT_NE(refusal("[1,2,3,4]", {.values_max = 3}).find("more than 3 values"), std::string::npos);
}

TEST(Json, DumpReplacesInvalidUtf8) {
  EXPECT_EQ(dump_json(Json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace glint
