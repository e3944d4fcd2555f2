// `glint text render` and `glint text parse` as a user runs them.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "text_cases.h"

namespace glint::test {
namespace {

struct Outcome {
  int status = 0;
  std::vector<OrderedJson> lines;
};

/// Runs `glint text ARGUMENTS` through the shell; standard error is dropped.
Outcome run(const std::string& arguments) {
  const std::string command = std::string(GLINT_BINARY) + " text " + arguments + " 2>/dev/null";
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer{};
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), got);
  Outcome out;
  out.status = pclose(pipe);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    out.lines.push_back(parse_python_json(std::string_view(text).substr(at, end - at), "output"));
    at = end + 1;
  }
  return out;
}

const std::string kCases = std::string(GLINT_TEST_DATA) + "/text/text-cases.jsonl";

Outcome run_lines(const std::string& command, const std::string& lines) {
  return run(command + " <<'END'\n" + lines + "\nEND\n");
}

TEST(TextCli, RendersTheCases) {
  const std::vector<OrderedJson> cases = text_cases();
  const Outcome got = run("render " + kCases);
  EXPECT_EQ(got.status, 0);
  ASSERT_EQ(got.lines.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(got.lines[i]["id"], cases[i]["id"]);
    if (cases[i]["kind"] == "template") {
      EXPECT_EQ(got.lines[i]["prompt"], cases[i]["expected"]["prompt"]);
    }
    if (cases[i]["id"] == "err-005") {
      EXPECT_EQ(got.lines[i]["error"]["param"], "tool_choice.function.name");
    }
  }
}

TEST(TextCli, ParsesTheCases) {
  const std::vector<OrderedJson> cases = text_cases();
  const Outcome got = run("parse - < " + kCases);
  EXPECT_EQ(got.status, 0);
  ASSERT_EQ(got.lines.size(), cases.size());
  int compared = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string kind = cases[i]["kind"].get<std::string>();
    if (kind != "tool" && kind != "reasoning" && kind != "stream") {
      EXPECT_TRUE(got.lines[i].contains("error"));
      continue;
    }
    for (const char* field : {"reasoning", "content", "finish_reason", "stop_reason"}) {
      if (got.lines[i].contains("error") || !cases[i]["expected"].contains(field)) continue;
      EXPECT_EQ(got.lines[i][field], cases[i]["expected"][field]) << cases[i]["id"] << " " << field;
      ++compared;
    }
    const OrderedJson calls = cases[i]["expected"].value("tool_calls", OrderedJson::array());
    for (size_t call = 0; call < calls.size(); ++call) {
      for (const auto& [key, value] : calls[call].items()) {
        EXPECT_EQ(Json(got.lines[i]["tool_calls"][call][key]), Json(value)) << cases[i]["id"];
      }
    }
  }
  EXPECT_GT(compared, 230);
}

TEST(TextCli, ReadsTokenBytesAndChunks) {
  const Outcome got = run_lines(
      "parse", R"({"id": 7, "token_bytes_hex": ["61", "f09f", "9880", "3c2f7468696e6b3e", "c3", "bc62"]}

{"chunks": ["a</thi", "nk>b<tool_c", "all>f</tool_call>"], "request": {"tools": [{"function": {"name": "f"}}]}}
{"raw_output": "b", "starts_in_reasoning": false})");
  ASSERT_EQ(got.lines.size(), 3U);
  EXPECT_EQ(python_dumps(got.lines[0]),
            R"({"id": 7, "reasoning": "a😀", "content": "üb", "tool_calls": [], "finish_reason": "stop"})");
  EXPECT_EQ(python_dumps(got.lines[1]["tool_calls"]),
            R"([{"index": 0, "name": "f", "arguments": {}, "arguments_text": "{}"}])");
  EXPECT_EQ(got.lines[2]["content"], "b");
}

TEST(TextCli, WrongLinesBecomeErrorsAndTheRestGoesOn) {
  const Outcome got = run_lines("parse", R"({
[]
{"id": 1, "raw_output": 3}
{"raw_output": "x", "request": {"thinking_token_budget": 4}}
{"token_bytes_hex": ["6"]}
{"raw_output": "x"})");
  EXPECT_EQ(got.status, 0);
  ASSERT_EQ(got.lines.size(), 6U);
  EXPECT_TRUE(got.lines[0]["error"]["param"].is_null());
  EXPECT_TRUE(got.lines[1]["error"]["param"].is_null());
  EXPECT_EQ(got.lines[2]["error"]["param"], "raw_output");
  EXPECT_EQ(got.lines[2]["id"], 1);
  EXPECT_EQ(got.lines[3]["error"]["param"], "thinking_token_budget");
  EXPECT_EQ(got.lines[4]["error"]["param"], "token_bytes_hex.0");
  EXPECT_EQ(got.lines[5]["reasoning"], "x");
}

TEST(TextCli, WrongFilesEndWithStatusTwo) {
  EXPECT_EQ(WEXITSTATUS(run("parse /nonexistent").status), 2);
  EXPECT_EQ(WEXITSTATUS(run("render --model /nonexistent").status), 2);
  EXPECT_EQ(WEXITSTATUS(run("parse --model /nonexistent").status), 2);
}

}  // namespace
}  // namespace glint::test
