#include "server/serve_options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "server/generation_options.h"
#include "support/temp_folder.h"

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

TEST(Flags, Names) {
  EXPECT_EQ(served_names({}, "/m"), std::vector<std::string>{"/m"});
  EXPECT_EQ(served_names({"a", "b", "a"}, "/m"), (std::vector<std::string>{"a", "b"}));
  EXPECT_NE(message_of([] { served_names({"a", ""}, "/m"); }), "no error");
}

TEST(GenerationConfig, FileAndFaults) {
  const TempFolder temporary;
  const std::filesystem::path& folder = temporary.path();
  const auto path = folder / "generation_config.json";
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
}

TEST(SpeculativeTokens, MethodAndNumber) {
  const auto drafts = [](const char* json) { return speculative_tokens(parse_ordered_json(json, "test")); };
  EXPECT_EQ(drafts("{}"), 0);
  EXPECT_EQ(drafts(R"({"method": "mtp", "num_speculative_tokens": 5})"), 5);
  EXPECT_EQ(drafts(R"({"method": "deepseek_mtp", "num_speculative_tokens": 3})"), 3);
  EXPECT_EQ(drafts(R"({"method": "mtp", "num_speculative_tokens": "auto"})"), kSpeculativeTokensAuto);
  const auto refusal = [&](const char* json) { return message_of([&] { drafts(json); }); };
  EXPECT_NE(refusal(R"({"method": "eagle3", "num_speculative_tokens": 5})")
                .find("\"eagle3\"; this model drafts with mtp"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"num_speculative_tokens": 5})").find("speculative-config.method: missing"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"method": "mtp"})").find("num_speculative_tokens: missing; expected 1 to 8"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"method": "mtp", "num_speculative_tokens": 9})").find("expected 1 to 8"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"method": "mtp", "num_speculative_tokens": 2.5})").find("2.5"), std::string::npos);
  EXPECT_NE(refusal(R"({"metod": "mtp"})").find("unknown key metod"), std::string::npos);
}

}  // namespace
}  // namespace glint
