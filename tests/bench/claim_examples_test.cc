// Reading the examples of `glint verify`, and that the committed ones are what the claims need.
#include "bench/claim_examples.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "bench/verify_model.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace glint::bench {
namespace {

const std::filesystem::path kData = std::filesystem::path(GLINT_TEST_DATA) / "../../models/nano/verify";

TEST(ClaimExamples, CommittedOnesCoverEveryClaimAndEffort) {
  const auto examples = read_claim_examples(kData / "claims.jsonl", {}, 0);
  std::map<std::string, std::array<int, 3>> counts;
  std::set<std::string> requests;
  for (const ClaimExample& example : examples) {
    ++counts[example.claim].at(example.effort);
    requests.insert(example.request);
  }
  EXPECT_EQ(counts.size(), 7U);
  for (const auto& [claim, by_effort] : counts) {
    EXPECT_GE(by_effort[0], 7) << claim;
    EXPECT_EQ(by_effort[0], by_effort[1]) << claim;
    EXPECT_EQ(by_effort[0], by_effort[2]) << claim;
  }
  EXPECT_EQ(requests.size(), examples.size()) << "an example stands there twice";
}

TEST(ClaimExamples, AreChosenByClaimAndNumber) {
  const auto examples = read_claim_examples(kData / "claims.jsonl", {"copy", "json"}, 4);
  ASSERT_EQ(examples.size(), 8U);
  for (const ClaimExample& example : examples)
    EXPECT_TRUE(example.claim == "copy" || example.claim == "json");
}

TEST(ClaimExamples, GreedyTextsAreSpreadOverTheFile) {
  EXPECT_EQ(read_greedy_texts(kData / "greedy.jsonl", 0).size(), 200U);
  const auto all = read_greedy_texts(kData / "greedy.jsonl", 500);
  const auto some = read_greedy_texts(kData / "greedy.jsonl", 20);
  ASSERT_EQ(some.size(), 20U);
  EXPECT_EQ(some[3].prompt, all[30].prompt);
}

TEST(ClaimExamples, ReferencesBelongToGreedyTexts) {
  const auto texts = read_reference_texts(kData / "reference.jsonl", kData / "greedy.jsonl", 0);
  EXPECT_GE(texts.size(), 20U);
  for (const ReferenceText& each : texts) {
    EXPECT_EQ(static_cast<int64_t>(each.logits.size()), each.text.tokens);
    EXPECT_GE(each.steps, (each.text.tokens - 1 + 5) / 6);  // a step gives six tokens at most
    EXPECT_LT(each.steps, each.text.tokens);
  }
  const TempFolder temp;
  const auto refuse = [&](const std::string& line, const std::string& part) {
    std::ofstream(temp.path() / "reference.jsonl") << line << "\n";
    expect_error([&] { read_reference_texts(temp.path() / "reference.jsonl", kData / "greedy.jsonl", 0); },
                 {"reference.jsonl line 1", part});
  };
  refuse(R"({"text": 200, "logits": [1], "steps": 1})", "text 200");
  refuse(R"({"text": 0, "logits": [1], "steps": 1})", "1 logits for 101 tokens");
}

TEST(ClaimExamples, BrokenLineIsNamed) {
  const TempFolder temp;
  const auto path = temp.path() / "claims.jsonl";
  const auto refuse = [&](const std::string& line, const std::string& part) {
    std::ofstream(path) << line << "\n";
    expect_error([&] { read_claim_examples(path, {}, 0); }, {"claims.jsonl line 1", part});
  };
  refuse("{", "");
  refuse(R"({"claim": "copy"})", "effort");
  refuse(R"({"claim": "copy", "task": "copy", "effort": "medium", "request": {}, "answer": 1})",
         "effort medium");
}

TEST(ClaimExamples, UnknownClaimIsRefused) {
  VerifyOptions options;
  options.claims = {"copy", "poetry"};
  expect_error([&] { verify_model(options, {}); }, {"--claims poetry", "arithmetic"});
}

}  // namespace
}  // namespace glint::bench
