// The pre-tokenizer and its Unicode tables against the Rust library, and byte-pair merging against its
// definition.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/bpe.h"
#include "text/byte_map.h"
#include "text/pretokenizer.h"
#include "text/unicode_classes.h"

namespace glint {
namespace {

std::vector<std::string> pieces(const PreTokenizer& splitter, std::string_view text) {
  std::vector<uint32_t> ends;
  splitter.split(text, ends);
  std::vector<std::string> out;
  uint32_t start = 0;
  for (const uint32_t end : ends) {
    EXPECT_LT(start, end);
    out.emplace_back(text.substr(start, end - start));
    start = end;
  }
  EXPECT_EQ(start, text.size());
  return out;
}

// Unicode.

class Fnv1a {
 public:
  void add(uint32_t code) {
    for (int shift = 0; shift < 32; shift += 8) value_ = (value_ ^ (code >> shift & 0xFFU)) * 0x100000001B3U;
    ++count_;
  }
  [[nodiscard]] Json result() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value_));
    return {{"count", count_}, {"fnv1a", text}};
  }

 private:
  uint64_t value_ = 0xCBF29CE484222325U;
  uint64_t count_ = 0;
};

TEST(UnicodeClasses, EveryCodePointIsInTheClassThatTheLibraryPutsItIn) {
  const Json expected =
      parse_json(read_file(GLINT_TEST_DATA "/text/unicode_classes.json"), "unicode_classes.json");
  EXPECT_EQ(expected["unicode"], unicode_classes_version());
  const UnicodeClasses& classes = UnicodeClasses::get();
  std::map<std::string, Fnv1a> found;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    found[std::string(category_name(classes.category(code)))].add(code);
    if (classes.is_white_space(code)) found["White_Space"].add(code);
    if (classes.is_word(code)) found["word"].add(code);
    if (classes.char_class(code) == CharClass::letter) found["L"].add(code);
    if (classes.char_class(code) == CharClass::number) found["N"].add(code);
    EXPECT_EQ(classes.char_class(code) == CharClass::white_space, classes.is_white_space(code));
  }
  for (const auto& [name, value] : expected["classes"].items()) {
    EXPECT_EQ(found[name].result(), value) << name;
  }
  EXPECT_EQ(found.size(), expected["classes"].size());
  EXPECT_EQ(classes.char_class(0x110000), CharClass::other);
}

TEST(UnicodeClasses, ContractionsFoldAsInTheLibrary) {
  const Json expected =
      parse_json(read_file(GLINT_TEST_DATA "/text/unicode_classes.json"), "unicode_classes.json");
  const auto splitter = make_pretokenizer(kGlmPattern, "test");
  for (const char* letter : {"s", "t", "m", "d"}) {
    std::vector<char32_t> found;
    for (char32_t code = 0; code <= 0x10FFFF; ++code) {
      if (code >= 0xD800 && code <= 0xDFFF) continue;
      std::string text = "'";
      append_utf8(text, code);
      const bool alone = pieces(*splitter, text + "zz").front() == text;
      if (alone && UnicodeClasses::get().char_class(code) == CharClass::letter) found.push_back(code);
    }
    for (const Json& code : expected["folds"][letter]) {
      EXPECT_EQ(std::count(found.begin(), found.end(), code.get<char32_t>()), 1) << letter << code;
    }
    EXPECT_EQ(found.size(), 9U);  // S s U+017F, T t, M m, D d
  }
}

// Pieces.

TEST(PreTokenizer, CutsAsTheLibraryDoes) {
  const Json vectors = parse_json(read_file(GLINT_TEST_DATA "/text/tokenizer_vectors.json"), "vectors");
  const auto scanner = make_pretokenizer(kGlmPattern, "test");
  const auto regex = make_regex_pretokenizer(kGlmPattern, "test");
  ASSERT_GT(vectors["pieces"].size(), 100U);
  for (const Json& entry : vectors["pieces"]) {
    const auto expected = entry.get<std::vector<std::string>>();
    std::string text;
    for (const std::string& piece : expected) text += piece;
    EXPECT_EQ(pieces(*scanner, text), expected);
    EXPECT_EQ(pieces(*regex, text), expected);
  }
}

TEST(PreTokenizer, ScannerAndRegexAgreeOnRandomText) {
  const auto scanner = make_pretokenizer(kGlmPattern, "test");
  const auto regex = make_regex_pretokenizer(kGlmPattern, "test");
  const std::u32string_view usual =
      U"  \t\n\r\u0085\u3000'''sStTrRevVmMdDlL\u017F\u212Aab12\u0663!.-\u4F60\u00E9\u0301";
  std::mt19937 random(5);
  for (int run = 0; run < 20000; ++run) {
    std::string text;
    const size_t length = random() % 24;
    for (size_t i = 0; i < length; ++i) {
      append_utf8(text, random() % 8 != 0 ? usual[random() % usual.size()]
                                          : static_cast<char32_t>(random() % 0x110000));
    }
    ASSERT_EQ(pieces(*scanner, text), pieces(*regex, text)) << text;
  }
}

TEST(PreTokenizer, LongRunsTakeLinearTime) {
  const auto scanner = make_pretokenizer(kGlmPattern, "test");
  const auto regex = make_regex_pretokenizer(kGlmPattern, "test");
  for (const std::string_view unit : {" ", "\n", "a", "1", "!", "\xE4\xBD\xA0", " \n", "'"}) {
    std::string text;
    while (text.size() < (size_t{1} << 20)) text += unit;
    EXPECT_EQ(pieces(*scanner, text).size(), pieces(*regex, text).size());
  }
}

TEST(PreTokenizer, RubyIntervalsRepeatInsteadOfBeingPossessive) {
  const auto splitter = make_pretokenizer(R"(\p{N}{1,3}+)", "test");
  EXPECT_EQ(pieces(*splitter, "a1234567b"), (std::vector<std::string>{"a", "1234567", "b"}));
}

TEST(PreTokenizer, RefusesWhatItCannotTranslate) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(\w+)", R"(the escape \w)"},
      {R"(\bx)", R"(the escape \b)"},
      {R"(\h)", R"(the escape \h)"},
      {R"((a)\1)", R"(the escape \1)"},
      {R"([[:alpha:]])", "a class inside a class"},
      {R"([a-z&&[^x]])", "an intersection of classes"},
      {R"([]a])", "a class that begins with ]"},
      {R"([a)", "a class without its end"},
      {R"([\s-z])", "a range that begins with a class"},
      {R"(\p{Han}+)", R"(the property \p{Han})"},
      {R"(\p{^L})", R"(the property \p{^L})"},
      {R"(a{2}?)", "the interval {}?"},
      {R"(a{3,2})", "an interval {n,m} with n above m"},
      {R"(a**)", "a quantifier of a quantifier"},
      {R"(*a)", "the quantifier * without anything to repeat"},
      {R"(^*)", "a quantifier of an anchor"},
      {R"((?i)a)", "the group (?i)"},
      {R"((?<name>a))", "the group (?<n"},
      {R"((*FAIL))", "the group (*FA"},
      {R"((?i:st))", "\"st\" that ignores case"},
      {"(?i:\xC3\xA9)", "a character outside ASCII that ignores case"},
      {R"((?i:[^a]))", "a negated class that ignores case"},
      {R"((a)", "a group without its end"},
      {R"(a))", "a ) without its ("},
      {R"(\xE9)", R"(the escape \xE9)"},
      {R"(\uD800)", R"(the escape \uD800)"},
      {R"(\x{110000})", "that is no code point"},
      {R"(a\)", R"(the escape \)"},
  };
  for (const auto& [pattern, expected] : cases) {
    SCOPED_TRACE(pattern);
    try {
      (void)make_pretokenizer(pattern, "file");
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      EXPECT_NE(std::string_view(error.what()).find(expected), std::string_view::npos) << error.what();
      EXPECT_TRUE(std::string_view(error.what()).starts_with("file: pre_tokenizer pattern: "));
    }
  }
}

// Bytes and merges.

TEST(ByteMap, IsABijectionOnPrintableCharacters) {
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t code = byte_to_char(static_cast<uint8_t>(byte));
    EXPECT_EQ(char_to_byte(code), byte);
    const GeneralCategory category = UnicodeClasses::get().category(code);
    EXPECT_NE(category, GeneralCategory::Cc);
    EXPECT_NE(category, GeneralCategory::Zs);
  }
  EXPECT_EQ(bytes_to_token_string(" a\n"),
            "\xC4\xA0"
            "a\xC4\x8A");
  EXPECT_EQ(token_string_to_bytes("\xC4\xA0"
                                  "a"),
            " a");
  EXPECT_EQ(token_string_to_bytes("a b"), std::nullopt);
  EXPECT_EQ(token_string_to_bytes("\xE4\xBD\xA0"), std::nullopt);
}

/// Merging as it is defined: the lowest rank anywhere, the leftmost of equals, one at a time.
std::vector<TokenId> merge_by_definition(std::vector<TokenId> ids,
                                         const std::map<std::pair<TokenId, TokenId>, Merge>& merges) {
  for (;;) {
    Merge best;
    size_t place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = merges.find({ids[i], ids[i + 1]});
      if (found != merges.end() && found->second.rank < best.rank) {
        best = found->second;
        place = i;
      }
    }
    if (best.id < 0) return ids;
    ids[place] = best.id;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

TEST(Bpe, MergesAsDefined) {
  std::mt19937 random(11);
  for (int run = 0; run < 60; ++run) {
    TokenTable tokens;
    std::vector<std::string> strings;
    for (const char letter : std::string_view("abcd")) {
      tokens.add(static_cast<TokenId>(strings.size()), std::string_view(&letter, 1));
      strings.emplace_back(1, letter);
    }
    MergeTable merges;
    merges.reserve(200);
    std::map<std::pair<TokenId, TokenId>, Merge> by_pair;
    for (uint32_t rank = 0; rank < 60; ++rank) {
      const auto left = static_cast<TokenId>(random() % strings.size());
      const auto right = static_cast<TokenId>(random() % strings.size());
      const std::string joined = strings[static_cast<size_t>(left)] + strings[static_cast<size_t>(right)];
      TokenId id = tokens.find(joined);
      if (id < 0) {
        id = static_cast<TokenId>(strings.size());
        tokens.add(id, joined);
        strings.push_back(joined);
      }
      const Merge merge{static_cast<uint32_t>(random() % 2 == 0 ? rank : 1000 - rank), id};
      merges.add(left, right, merge);
      by_pair[{left, right}] = merge;
    }
    const BpeModel model(std::move(tokens), std::move(merges), false);
    BpeModel::Scratch scratch;
    for (const size_t length : {0U, 1U, 2U, 7U, 47U, 48U, 49U, 50U, 130U, 400U}) {
      std::string text;
      std::vector<TokenId> bytes;
      for (size_t i = 0; i < length; ++i) {
        text += static_cast<char>('a' + random() % 5);  // 'e' has no token and vanishes
        if (text.back() != 'e') bytes.push_back(text.back() - 'a');
      }
      std::vector<TokenId> got;
      model.encode(text, got, scratch);
      ASSERT_EQ(got, merge_by_definition(bytes, by_pair)) << text;
    }
  }
}

TEST(Bpe, IgnoreMergesTakesAWholePieceThatMergesCannotReach) {
  for (const bool ignore : {true, false}) {
    TokenTable tokens;
    tokens.add(0, "a");
    tokens.add(1, "b");
    tokens.add(2, "ab");
    const BpeModel model(std::move(tokens), MergeTable(), ignore);
    BpeModel::Scratch scratch;
    std::vector<TokenId> got;
    model.encode("ab", got, scratch);
    model.encode("aba", got, scratch);
    EXPECT_EQ(got, ignore ? (std::vector<TokenId>{2, 0, 1, 0}) : (std::vector<TokenId>{0, 1, 0, 1, 0}));
  }
}

TEST(Bpe, ALongPieceTakesNoQuadraticTime) {
  TokenTable tokens;
  tokens.add(0, "a");
  tokens.add(1, "aa");
  tokens.add(2, "aaaa");
  MergeTable merges;
  merges.reserve(2);
  merges.add(0, 0, {0, 1});
  merges.add(1, 1, {1, 2});
  const BpeModel model(std::move(tokens), std::move(merges), true);
  BpeModel::Scratch scratch;
  std::vector<TokenId> got;
  model.encode(std::string(4'000'003, 'a'), got, scratch);  // quadratic would be hours
  EXPECT_EQ(got.size(), 1'000'002U);
  EXPECT_EQ(got[999'999], 2);
  EXPECT_EQ(got[1'000'000], 1);
  EXPECT_EQ(got[1'000'001], 0);
}

}  // namespace
}  // namespace glint
