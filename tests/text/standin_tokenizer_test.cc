// The stand-in tokenizer: its ids are where the issue puts them, every id is a token, the same bytes each
// time.
#include "text/standin_tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "support/temp_folder.h"
#include "text/chat_template.h"
#include "text/standin_vocabulary.h"
#include "text/tokenizer.h"

namespace glint {
namespace {

using Eos = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> make(int64_t vocab_size, const Eos& eos) {
  return Tokenizer::parse(standin_tokenizer_json(vocab_size, eos), "stand-in");
}

void expect_complete(const Tokenizer& tokenizer, int64_t vocab_size) {
  EXPECT_EQ(tokenizer.size(), vocab_size);
  std::set<std::string_view> seen;
  int added = 0;
  for (TokenId id = 0; id < vocab_size; ++id) {
    ASSERT_TRUE(tokenizer.exists(id)) << id;
    ASSERT_TRUE(seen.insert(tokenizer.token_bytes(id)).second) << id;
    added += tokenizer.is_added(id) ? 1 : 0;
  }
  EXPECT_EQ(added, 36);
}

TEST(StandinTokenizer, MicroIds) {
  const auto tokenizer = make(320, {300, 301, 302});
  expect_complete(*tokenizer, 320);
  EXPECT_EQ(tokenizer->id_of("<|endoftext|>"), 300);
  EXPECT_EQ(tokenizer->id_of("<|user|>"), 301);
  EXPECT_EQ(tokenizer->id_of("<|observation|>"), 302);
  EXPECT_EQ(tokenizer->id_of("<|video|>"), 319);  // the last of the real table takes the highest id
  EXPECT_EQ(tokenizer->id_of("<|image|>"), 318);
  EXPECT_EQ(tokenizer->id_of("[MASK]"), 284);
  EXPECT_FALSE(tokenizer->is_added(283));
}

TEST(StandinTokenizer, RealIds) {
  const auto tokenizer = make(154880, {154820, 154827, 154829});
  expect_complete(*tokenizer, 154880);
  EXPECT_EQ(tokenizer->id_of("<|endoftext|>"), 154820);
  EXPECT_EQ(tokenizer->id_of("<|user|>"), 154827);
  EXPECT_EQ(tokenizer->id_of("<|observation|>"), 154829);
  EXPECT_EQ(tokenizer->id_of("<|video|>"), 154879);
  EXPECT_EQ(tokenizer->id_of("[MASK]"), 154847);
  const auto words = tokenizer->encode("The weather in Paris is sunny today.", false);
  EXPECT_LE(words.size(), 9U);
}

TEST(StandinTokenizer, SpecialIsWhatTheTextLayerSays) {
  const auto tokenizer = make(1024, {1000, 1001, 1002});
  for (const char* content :
       {"<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"}) {
    EXPECT_TRUE(tokenizer->is_special(tokenizer->id_of(content).value())) << content;
  }
  for (const char* content : {"<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>",
                              "<arg_value>", "</arg_value>"}) {
    const TokenId id = tokenizer->id_of(content).value();
    EXPECT_TRUE(tokenizer->is_added(id)) << content;
    EXPECT_FALSE(tokenizer->is_special(id)) << content;
  }
}

TEST(StandinTokenizer, EosMayLieAnywhere) {
  expect_complete(*make(292, {0, 291, 100}), 292);
  expect_complete(*make(5000, {4999, 4998, 4997}), 5000);
  EXPECT_EQ(make(292, {0, 291, 100})->id_of("<|user|>"), 291);
}

TEST(StandinTokenizer, RefusesWhatCannotHoldIt) {
  EXPECT_THROW(make(291, {288, 289, 290}), Error);
  EXPECT_THROW(make(kStandinVocabularyMax + 1, {1, 2, 3}), Error);
  EXPECT_THROW(make(320, {300, 301}), Error);
  EXPECT_THROW(make(320, {300, 300, 301}), Error);
  EXPECT_THROW(make(320, {300, 301, 320}), Error);
  EXPECT_THROW(make(320, {-1, 301, 302}), Error);
}

TEST(StandinTokenizer, MergesAreMadeOfWhatIsThere) {
  const StandinVocabulary made = make_standin_vocabulary(20000);
  ASSERT_EQ(made.tokens.size(), 20000U);
  for (size_t i = 0; i < made.merges.size(); ++i) {
    const auto [left, right] = made.merges[i];
    ASSERT_LT(std::max(left, right), 256 + i);
    ASSERT_EQ(made.tokens[256 + i], made.tokens[left] + made.tokens[right]);
  }
  const StandinVocabulary smaller = make_standin_vocabulary(3000);
  EXPECT_TRUE(std::equal(smaller.tokens.begin(), smaller.tokens.end(), made.tokens.begin()));
}

TEST(StandinTokenizer, TextComesBack) {
  for (const auto& tokenizer : {make(320, {300, 301, 302}), make(1024, {1000, 1001, 1002})}) {
    const std::string text(standin_training_text());
    const auto ids = tokenizer->encode(text, false);
    EXPECT_EQ(tokenizer->decode(ids, false), text);
    EXPECT_LT(ids.size(), text.size());
  }
}

TEST(StandinTokenizer, FolderIsServable) {
  const TempFolder temporary;
  const std::filesystem::path& folder = temporary.path();
  ModelConfig config;
  config.vocab_size = 320;
  config.eos_token_id = {300, 301, 302};
  config.max_position_embeddings = 4096;
  write_standin_tokenizer(config, folder);
  const std::string first = read_file(folder / "tokenizer.json");
  write_standin_tokenizer(config, folder);
  EXPECT_EQ(read_file(folder / "tokenizer.json"), first);
  EXPECT_EQ(Tokenizer::load(folder)->size(), 320);
  EXPECT_EQ(Tokenizer::load(folder / "tokenizer.json")->size(), 320);
  EXPECT_TRUE(parse_json(read_file(folder / "tokenizer_config.json"), "tokenizer_config.json").is_object());
  const ChatTemplate chat = ChatTemplate::load(folder);
  EXPECT_TRUE(chat.has_low_effort());
  EXPECT_FALSE(chat.has_thinking_switch());
}

}  // namespace
}  // namespace glint
