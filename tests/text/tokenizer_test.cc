// The tokenizer against vectors of the Rust library (tools/make_tokenizer_vectors.py), and what it refuses.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/standin_tokenizer.h"

namespace glint {
namespace {

const Json& vectors() {
  static const Json document =
      parse_json(read_file(GLINT_TEST_DATA "/text/tokenizer_vectors.json"), "tokenizer_vectors.json");
  return document;
}

std::shared_ptr<const Tokenizer> from(const Json& spec) {
  return Tokenizer::parse(spec.dump(), "test");
}

std::shared_ptr<const Tokenizer> plain() {
  static const auto tokenizer = from(vectors()["tokenizers"][0]["spec"]);
  return tokenizer;
}

TEST(TokenizerVectors, EncodeAsTheLibrary) {
  for (const Json& entry : vectors()["tokenizers"]) {
    SCOPED_TRACE(entry["name"]);
    const auto tokenizer = from(entry["spec"]);
    ASSERT_GT(entry["encode"].size(), 50U);
    for (const Json& pair : entry["encode"]) {
      const auto ids = tokenizer->encode(pair[0].get<std::string>(), entry["special"].get<bool>());
      EXPECT_EQ(Json(ids), pair[1]) << pair[0];
    }
  }
}

TEST(TokenizerVectors, DecodeAsTheLibrary) {
  for (const Json& entry : vectors()["tokenizers"]) {
    SCOPED_TRACE(entry["name"]);
    const auto tokenizer = from(entry["spec"]);
    ASSERT_GT(entry["decode"].size(), 50U);
    for (const Json& row : entry["decode"]) {
      const auto text = tokenizer->decode(row[0].get<std::vector<TokenId>>(), row[1].get<bool>());
      EXPECT_EQ(text, row[2].get<std::string>()) << row[0];
    }
  }
}

TEST(Tokenizer, KnowsItsTokens) {
  const auto tokenizer = plain();
  EXPECT_EQ(tokenizer->size(), 340);
  EXPECT_EQ(tokenizer->id_of("<|user|>"), 301);
  EXPECT_EQ(tokenizer->id_of("A"), 'A');
  EXPECT_EQ(tokenizer->id_of("\xC4\xA0"), ' ');  // U+0120, the space as the file writes it
  EXPECT_EQ(tokenizer->id_of("<|nobody|>"), std::nullopt);
  EXPECT_TRUE(tokenizer->is_special(301));
  const TokenId think = tokenizer->id_of("<think>").value();
  EXPECT_TRUE(tokenizer->is_added(think));
  EXPECT_FALSE(tokenizer->is_special(think));
  EXPECT_EQ(tokenizer->token_bytes(think), "<think>");
  EXPECT_EQ(tokenizer->token_bytes(0xE4), "\xE4");
  for (const TokenId unknown : {-1, 340, 1 << 30}) {
    EXPECT_FALSE(tokenizer->exists(unknown));
    EXPECT_FALSE(tokenizer->is_added(unknown));
    EXPECT_FALSE(tokenizer->is_special(unknown));
    EXPECT_EQ(tokenizer->token_bytes(unknown), "");
  }
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{-1, 'h', 340, 'i', 1 << 30}, false), "hi");
}

TEST(Tokenizer, HolesAreNoTokens) {
  for (const Json& entry : vectors()["tokenizers"]) {
    if (entry["name"] != "bytes") continue;
    const auto tokenizer = from(entry["spec"]);
    EXPECT_FALSE(tokenizer->exists('e'));
    EXPECT_TRUE(tokenizer->exists('f'));
    EXPECT_EQ(tokenizer->size(), 340);
  }
}

TEST(Tokenizer, RefusesInvalidUtf8) {
  try {
    (void)plain()->encode("ok\xC3(", false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_STREQ(error.what(), "the text is not valid UTF-8 at byte 2");
  }
}

TEST(Tokenizer, ManyThreadsEncodeAtOnce) {
  const std::string text = "Hello, world! <|user|> 12345 \xE4\xBD\xA0\xE5\xA5\xBD " + std::string(200, 'a');
  const auto expected = plain()->encode(text, false);
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::vector<int> equal(4, 0);
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) count += plain()->encode(text, false) == expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : equal) EXPECT_EQ(count, 50);
}

// What is refused.

struct Mutation {
  const char* expected;  // a part of the message
  std::function<void(Json&)> change;
};

Json& split_of(Json& spec) {
  return spec["pre_tokenizer"]["pretokenizers"][0];
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> list = {
      {"test: version: only 1.0 is known, found \"2.0\"", [](Json& s) { s["version"] = "2.0"; }},
      {"test: normalizer: only null is implemented",
       [](Json& s) {
         s["normalizer"] = {{"type", "NFC"}};
       }},
      {"test: truncation: only null",
       [](Json& s) {
         s["truncation"] = {{"max_length", 5}};
       }},
      {"test: padding: only null",
       [](Json& s) {
         s["padding"] = {{"pad_id", 0}};
       }},
      {"test: model is null, expected an object", [](Json& s) { s.erase("model"); }},
      {"test: model.type: WordPiece is not implemented", [](Json& s) { s["model"]["type"] = "WordPiece"; }},
      {"test: model.unk_token: only null", [](Json& s) { s["model"]["unk_token"] = "a"; }},
      {"test: model.dropout: only null", [](Json& s) { s["model"]["dropout"] = 0.5; }},
      {"test: model.byte_fallback: only false", [](Json& s) { s["model"]["byte_fallback"] = true; }},
      {"test: model.continuing_subword_prefix: only null",
       [](Json& s) { s["model"]["continuing_subword_prefix"] = "##"; }},
      {"test: model.end_of_word_suffix: only null",
       [](Json& s) { s["model"]["end_of_word_suffix"] = "</w>"; }},
      {"test: model.ignore_merges is 1, expected true or false",
       [](Json& s) { s["model"]["ignore_merges"] = 1; }},
      {"test: model.vocab is [], expected an object", [](Json& s) { s["model"]["vocab"] = Json::array(); }},
      {"test: model.vocab[\"A\"] is -1, expected an id from 0 to",
       [](Json& s) { s["model"]["vocab"]["A"] = -1; }},
      {"test: model.vocab[\"A\"] is 4194304, expected an id",
       [](Json& s) { s["model"]["vocab"]["A"] = 4194304; }},
      {"expected an id that no other token has", [](Json& s) { s["model"]["vocab"]["A"] = 66; }},
      {"test: model.merges is {}, expected an array", [](Json& s) { s["model"]["merges"] = Json::object(); }},
      {R"(test: model.merges[0] is ["A","B","C"], expected an array of two)",
       [](Json& s) {
         s["model"]["merges"][0] = {"A", "B", "C"};
       }},
      {"test: model.merges[1] is \"A B\", expected an array of two",
       [](Json& s) { s["model"]["merges"][1] = "A B"; }},
      {"test: model.merges[0] is \"AB\", expected two token strings",
       [](Json& s) { s["model"]["merges"] = {"AB"}; }},
      {R"(test: model.merges[0] is ["A","B"], expected both parts)",
       [](Json& s) {
         s["model"]["merges"][0] = {"A", "B"};
       }},
      {"test: added_tokens is {}, expected an array", [](Json& s) { s["added_tokens"] = Json::object(); }},
      {"test: added_tokens[0].single_word is null, expected true or false",
       [](Json& s) { s["added_tokens"][0].erase("single_word"); }},
      {"test: added_tokens[0].content is \"\", expected at least one character",
       [](Json& s) { s["added_tokens"][0]["content"] = ""; }},
      {"expected content that no other has",
       [](Json& s) { s["added_tokens"][1]["content"] = s["added_tokens"][0]["content"]; }},
      {"test: added_tokens[0].id is 5, expected 300", [](Json& s) { s["added_tokens"][0]["id"] = 5; }},
      {"test: pre_tokenizer: only a Sequence of Split (a regex) and ByteLevel is implemented, found none",
       [](Json& s) { s["pre_tokenizer"] = nullptr; }},
      {"test: pre_tokenizer.type: only a Sequence",
       [](Json& s) { s["pre_tokenizer"]["type"] = "Whitespace"; }},
      {"test: pre_tokenizer.pretokenizers: only a Sequence",
       [](Json& s) { s["pre_tokenizer"]["pretokenizers"].erase(0); }},
      {"test: pre_tokenizer.pretokenizers[0].behavior: only Isolated",
       [](Json& s) { split_of(s)["behavior"] = "Removed"; }},
      {"test: pre_tokenizer.pretokenizers[0].invert: only false",
       [](Json& s) { split_of(s)["invert"] = true; }},
      {"test: pre_tokenizer.pretokenizers[0].pattern: only {\"Regex\": ...}",
       [](Json& s) {
         split_of(s)["pattern"] = {{"String", " "}};
       }},
      {"test: pre_tokenizer.pretokenizers[1].use_regex: only false",
       [](Json& s) { s["pre_tokenizer"]["pretokenizers"][1]["use_regex"] = true; }},
      {"test: pre_tokenizer.pretokenizers[1].add_prefix_space: only false",
       [](Json& s) { s["pre_tokenizer"]["pretokenizers"][1].erase("add_prefix_space"); }},
      {"test: post_processor.type: BertProcessing is not implemented",
       [](Json& s) {
         s["post_processor"] = {{"type", "BertProcessing"}};
       }},
      {"test: decoder: only ByteLevel is implemented, found none", [](Json& s) { s["decoder"] = nullptr; }},
      {"test: decoder.type: only ByteLevel", [](Json& s) { s["decoder"]["type"] = "Metaspace"; }},
  };
  return list;
}

TEST(Tokenizer, RefusesEachMutationInOneLine) {
  for (const Mutation& mutation : mutations()) {
    SCOPED_TRACE(mutation.expected);
    Json spec = vectors()["tokenizers"][0]["spec"];
    mutation.change(spec);
    try {
      (void)from(spec);
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(mutation.expected), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos);
      EXPECT_TRUE(error.kind() == ErrorKind::bad_input || error.kind() == ErrorKind::unsupported);
    }
  }
}

TEST(Tokenizer, RefusesTemplatesThatItCannotApply) {
  const Json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json mark = {{"SpecialToken", {{"id", "X"}, {"type_id", 0}}}};
  const Json ids = {{"X", {{"id", "X"}, {"ids", {300}}, {"tokens", {"x"}}}}};
  const auto spec_with = [&](const Json& single, const Json& tokens) {
    Json spec = vectors()["tokenizers"][0]["spec"];
    spec["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", single},
                              {"pair", Json::array()},
                              {"special_tokens", tokens}};
    return spec;
  };
  EXPECT_EQ(from(spec_with({mark, sequence, sequence}, ids))->encode("A", true),
            (std::vector<TokenId>{300, 'A', 'A'}));
  EXPECT_EQ(from(spec_with({mark, sequence}, ids))->encode("A", false), (std::vector<TokenId>{'A'}));
  EXPECT_THROW(from(spec_with({{{"Sequence", {{"id", "B"}, {"type_id", 0}}}}}, ids)), Error);
  EXPECT_THROW(from(spec_with({mark}, Json::object())), Error);
  Json unknown = ids;
  unknown["X"]["ids"] = {340};
  EXPECT_THROW(from(spec_with({mark}, unknown)), Error);
  Json twice = spec_with({mark, sequence}, ids);
  twice["post_processor"] = {{"type", "Sequence"},
                             {"processors", {twice["post_processor"], twice["post_processor"]}}};
  EXPECT_THROW(from(twice), Error);
}

TEST(Tokenizer, TakesNeutralForms) {
  Json spec = vectors()["tokenizers"][0]["spec"];
  for (const char* key : {"version", "truncation", "padding", "normalizer", "post_processor"})
    spec.erase(key);
  for (const char* key : {"type", "unk_token", "fuse_unk", "byte_fallback"}) spec["model"].erase(key);
  spec["model"]["dropout"] = 0.0;
  spec["model"]["end_of_word_suffix"] = "";
  EXPECT_EQ(from(spec)->encode("Hello <think>", true), plain()->encode("Hello <think>", true));
}

TEST(Tokenizer, IgnoreMergesIsReadFromTheFile) {
  Json spec = vectors()["tokenizers"][0]["spec"];
  spec["model"]["vocab"]["XYZ"] = 340;  // no merge makes it
  for (const bool ignore : {true, false}) {
    spec["model"]["ignore_merges"] = ignore;
    EXPECT_EQ(from(spec)->encode("XYZ", false),
              ignore ? (std::vector<TokenId>{340}) : (std::vector<TokenId>{'X', 'Y', 'Z'}));
  }
}

TEST(Tokenizer, SkipsTheHeaderLineOfOldMerges) {
  Json spec = vectors()["tokenizers"][0]["spec"];
  spec["model"]["vocab"]["XY"] = 340;
  spec["model"]["merges"] = {"#version: 0.2", "X Y"};
  EXPECT_EQ(from(spec)->encode("XYZ", false), (std::vector<TokenId>{340, 'Z'}));
}

TEST(Tokenizer, NormalizedTokensComeSecond) {
  Json spec = vectors()["tokenizers"][0]["spec"];
  const auto add = [&](const char* content, TokenId id, bool normalized) {
    Json token = spec["added_tokens"][0];
    token["content"] = content;
    token["id"] = id;
    token["normalized"] = normalized;
    spec["added_tokens"].push_back(token);
  };
  add("XYZ", 340, true);
  add("YZ", 341, false);
  EXPECT_EQ(from(spec)->encode("XYZ", false), (std::vector<TokenId>{'X', 341}));
  add("WXY", 342, true);
  EXPECT_EQ(from(spec)->encode("WXYWXYZ", false), (std::vector<TokenId>{342, 'W', 'X', 341}));
}

// Streaming.

TEST(StreamDetokenizer, NeverSplitsACharacterAndLosesOnlyAnUnfinishedOne) {
  std::mt19937 random(3);
  const auto tokenizer = plain();
  for (int run = 0; run < 3000; ++run) {
    std::vector<TokenId> ids;
    const int length = static_cast<int>(random() % 12) + 1;
    for (int i = 0; i < length; ++i) {
      // Mostly bytes of multi-byte characters: leads, continuations, some of each that fits nothing.
      const bool any = random() % 4 == 0;
      ids.push_back(any ? static_cast<TokenId>(random() % 340)
                        : static_cast<TokenId>(0x80 + random() % 0x78));
    }
    const bool skip = random() % 2 == 0;
    StreamDetokenizer stream(tokenizer, skip);
    std::string streamed;
    std::string bytes;
    for (const TokenId id : ids) {
      const std::string part = stream.push(id);
      EXPECT_TRUE(is_valid_utf8(part));
      streamed += part;
      if (!skip || !tokenizer->is_special(id)) bytes += tokenizer->token_bytes(id);
    }
    bytes.resize(bytes.size() - utf8_unfinished_tail(bytes));
    EXPECT_EQ(streamed, utf8_lossy(bytes));
  }
}

TEST(StreamDetokenizer, WaitsForTheLastByte) {
  StreamDetokenizer stream(plain(), true);
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(301), "");  // a special token in between is not there
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.push(0xE4), "");
  EXPECT_EQ(stream.push('A'), std::string(kReplacementUtf8) + "A");
  EXPECT_EQ(stream.push(0xFF), kReplacementUtf8);
}

}  // namespace
}  // namespace glint
