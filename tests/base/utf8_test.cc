#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace glint {
namespace {

using namespace std::string_literals;

TEST(Utf8, EveryCodePointGoesThereAndBack) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code == 0xD800) code = 0xE000;
    std::string bytes;
    append_utf8(bytes, code);
    const Utf8Step step = utf8_step(bytes, 0);
    ASSERT_EQ(step.kind, Utf8Kind::good);
    ASSERT_EQ(step.code, code);
    ASSERT_EQ(step.bytes, bytes.size());
    ASSERT_EQ(utf8_valid_prefix(bytes), bytes.size());
  }
}

TEST(Utf8, RefusesSurrogatesOverlongFormsAndTooLargeValues) {
  for (const std::string& bad :
       {"\xED\xA0\x80"s, "\xED\xBF\xBF"s, "\xC0\x80"s, "\xC1\xBF"s, "\xE0\x80\x80"s, "\xE0\x9F\xBF"s,
        "\xF0\x8F\xBF\xBF"s, "\xF4\x90\x80\x80"s, "\xF5\x80\x80\x80"s, "\x80"s, "\xFF"s}) {
    EXPECT_EQ(utf8_valid_prefix("ok" + bad), 2U);
  }
}

// The examples of Unicode 16.0, section 3.9, tables 3-8 to 3-11 (U+FFFD substitution of maximal subparts).
TEST(Utf8, LossyReplacesMaximalSubparts) {
  const std::string r(kReplacementUtf8);
  EXPECT_EQ(utf8_lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(utf8_lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(utf8_lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(utf8_lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(utf8_lossy("abc\xE4\xBD"), "abc" + r);
  EXPECT_EQ(utf8_lossy("\xE4\xBD\xA0 plain"), "\xE4\xBD\xA0 plain");
}

TEST(Utf8, UnfinishedTail) {
  EXPECT_EQ(utf8_unfinished_tail(""), 0U);
  EXPECT_EQ(utf8_unfinished_tail("abc"), 0U);
  EXPECT_EQ(utf8_unfinished_tail("\xE4\xBD\xA0"), 0U);
  EXPECT_EQ(utf8_unfinished_tail("a\xE4"), 1U);
  EXPECT_EQ(utf8_unfinished_tail("a\xE4\xBD"), 2U);
  EXPECT_EQ(utf8_unfinished_tail("\xF0\x9F\x98"), 3U);
  EXPECT_EQ(utf8_unfinished_tail("\xF0\x9F\x98\x80"), 0U);
  EXPECT_EQ(utf8_unfinished_tail("\x80\x80\x80\x80"), 0U);  // continuation bytes alone complete nothing
  EXPECT_EQ(utf8_unfinished_tail("\xED\xA0"), 0U);          // a surrogate can no longer become a character
  EXPECT_EQ(utf8_unfinished_tail("\xE0\x80"), 0U);
  EXPECT_EQ(utf8_unfinished_tail("\xC3"), 1U);
}

TEST(Utf8, LengthCountsCharactersAndSubparts) {
  EXPECT_EQ(utf8_length("a\xE4\xBD\xA0\xF0\x9F\x98\x80"), 3U);
  EXPECT_EQ(utf8_length("\xE4\xBD"
                        "a"),
            2U);
}

}  // namespace
}  // namespace glint
