// The judge of answers against tools/nano/judge.py, case by case (tools/nano/make_judge_cases.py).
#include "bench/claim_judge.h"

#include <gtest/gtest.h>

#include <fstream>

namespace glint::bench {
namespace {

TEST(ClaimJudge, SaysWhatThePythonJudgeSays) {
  std::ifstream file(std::string(GLINT_TEST_DATA) + "/nano/judge.jsonl");
  int right = 0;
  int wrong = 0;
  for (std::string line; std::getline(file, line);) {
    const Json json = parse_json(line, "judge.jsonl");
    ClaimExample example;
    example.task = json.at("task");
    example.answer = json.at("answer");
    ModelAnswer answer{json.at("content"), std::nullopt, json.at("ended")};
    if (!json.at("call").is_null()) answer.call = json.at("call");
    const bool want = json.at("right");
    ++(want ? right : wrong);
    EXPECT_EQ(answer_is_right(example, answer), want) << line;
  }
  EXPECT_GT(right, 60);
  EXPECT_GT(wrong, 60);
}

TEST(ClaimJudge, AWordStandsByItself) {
  EXPECT_TRUE(holds_word("room 12.", "12"));
  EXPECT_FALSE(holds_word("room 3120", "12"));
  EXPECT_FALSE(holds_word("0.12", "12"));
  EXPECT_TRUE(holds_word("112 and 12", "12"));
  EXPECT_FALSE(holds_word("", "12"));
  EXPECT_TRUE(holds_word("", ""));
}

}  // namespace
}  // namespace glint::bench
