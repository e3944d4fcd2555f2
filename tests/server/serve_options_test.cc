#include "server/serve_options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "server/generation_options.h"

namespace glint {
namespace {

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "no error";
}

TEST(HumanInteger, Table) {
  const std::pair<const char*, int64_t> good[] = {{"131072", 131072},
                                                  {"1k", 1000},
                                                  {"25.6k", 25600},
                                                  {"1m", 1'000'000},
                                                  {"1K", 1024},
                                                  {"512K", 524288},
                                                  {"1M", 1'048'576},
                                                  {"2g", 2'000'000'000},
                                                  {"1G", 1 << 30},
                                                  {"1T", int64_t{1} << 40},
                                                  {"1", 1},
                                                  {"0.001k", 1},
                                                  {"1048576", 1'048'576}};
  for (const auto& [text, value] : good) EXPECT_EQ(parse_human_integer("--x", text), value) << text;
  for (const char* text : {"", "k", "1.048576e+06", "1.5K", "1.5", "-1", "0", "abc", "1kk", "0x10",
                           "99999999T", " 1", "1..2k", "nan", "inf"}) {
    EXPECT_NE(
        message_of([&] { parse_human_integer("--max-model-len", text); }).find("argument --max-model-len: "),
        std::string::npos)
        << text;
  }
  EXPECT_FALSE(parse_human_integer_or_auto("--x", "auto"));
  EXPECT_FALSE(parse_human_integer_or_auto("--x", "-1"));
  EXPECT_EQ(parse_human_integer_or_auto("--x", "8k"), 8000);
}

TEST(Flags, Choices) {
  EXPECT_NO_THROW(check_choice("--tool-call-parser", "glm47", {"glm47", "glm45"}));
  EXPECT_EQ(message_of([] {
              check_choice("--tool-call-parser", "hermes", {"glm47", "glm45"});
            }),
            "argument --tool-call-parser: invalid choice: 'hermes' (choose from glm47, glm45)");
}

TEST(Flags, JsonObjects) {
  EXPECT_TRUE(parse_json_object_flag("--x", "").is_null());
  EXPECT_EQ(parse_json_object_flag("--x", "{\"a\": 1}").at("a"), 1);
  for (const char* text : {"[1]", "{", "7", "{\"a\":}"}) {
    EXPECT_NE(message_of([&] { parse_json_object_flag("--x", text); }).find("argument --x"),
              std::string::npos);
  }
}

TEST(Flags, Names) {
  EXPECT_EQ(served_names({}, "/m"), std::vector<std::string>{"/m"});
  EXPECT_EQ(served_names({"a", "b", "a"}, "/m"), (std::vector<std::string>{"a", "b"}));
  EXPECT_NE(message_of([] { served_names({"a", ""}, "/m"); }), "no error");
}

TEST(GenerationConfig, FileAndFaults) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "glint-generation-config";
  std::filesystem::create_directories(folder);
  const auto path = folder / "generation_config.json";
  std::filesystem::remove(path);
  EXPECT_EQ(load_sampling_defaults(folder).temperature, 1.0);
  std::ofstream(path)
      << R"({"temperature": 0.7, "top_p": 0.95, "top_k": 40, "max_new_tokens": 100, "eos_token_id": [1]})";
  const SamplingDefaults defaults = load_sampling_defaults(folder);
  EXPECT_EQ(defaults.temperature, 0.7);
  EXPECT_EQ(defaults.top_p, 0.95);
  EXPECT_EQ(defaults.top_k, 40);
  EXPECT_EQ(defaults.max_new_tokens, 100);
  for (const char* text : {"{\"temperature\": 3}", "{\"top_p\": \"x\"}", "[]", "{", "{\"top_p\": 0}"}) {
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_NE(message_of([&] { load_sampling_defaults(folder); }).find("generation_config.json"),
              std::string::npos)
        << text;
  }
  std::filesystem::remove_all(folder);
}

TEST(SpeculativeTokens, MergesJsonAndDottedFlags) {
  EXPECT_EQ(speculative_tokens("", "", ""), 0);
  EXPECT_EQ(speculative_tokens("", "mtp", "5"), 5);
  EXPECT_EQ(speculative_tokens("", "mtp", "auto"), kSpeculativeTokensAuto);
  EXPECT_EQ(speculative_tokens(R"({"method": "mtp", "num_speculative_tokens": "auto"})", "", ""),
            kSpeculativeTokensAuto);
  EXPECT_EQ(speculative_tokens(R"({"method": "mtp", "num_speculative_tokens": 3})", "", ""), 3);
  EXPECT_EQ(speculative_tokens(R"({"method": "mtp", "num_speculative_tokens": 3})", "", "2"), 2);
  const auto refusal = [](const char* json, const char* method, const char* tokens) {
    return message_of([=] { speculative_tokens(json, method, tokens); });
  };
  EXPECT_NE(refusal("", "eagle3", "5").find("\"eagle3\"; this model drafts with mtp"), std::string::npos);
  EXPECT_NE(refusal("", "", "5").find("speculative-config.method: missing"), std::string::npos);
  EXPECT_NE(refusal("", "mtp", "").find("num_speculative_tokens: missing; expected 1 to 8"),
            std::string::npos);
  EXPECT_NE(refusal("", "mtp", "9").find("expected 1 to 8"), std::string::npos);
  EXPECT_NE(refusal(R"({"method": "mtp", "num_speculative_tokens": 2.5})", "", "").find("2.5"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"metod": "mtp"})", "", "").find("unknown key metod"), std::string::npos);
}

}  // namespace
}  // namespace glint
