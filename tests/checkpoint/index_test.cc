#include "checkpoint/index.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/config_text.h"
#include "support/expect_error.h"

namespace glint {
namespace {

TEST(Index, ReadsWhatItWrites) {
  const std::string text =
      checkpoint_index_text({{"b", "model-2.safetensors"}, {"a", "model-1.safetensors"}}, 12);
  EXPECT_EQ(text,
            "{\n  \"metadata\": {\n    \"total_size\": 12\n  },\n  \"weight_map\": {\n    \"a\": "
            "\"model-1.safetensors\",\n"
            "    \"b\": \"model-2.safetensors\"\n  }\n}\n");
  const CheckpointIndex index = parse_checkpoint_index(text, "index");
  ASSERT_EQ(index.tensors.size(), 2U);
  EXPECT_EQ(index.tensors[1].first, "b");
  EXPECT_EQ(index.files[index.tensors[1].second], "model-2.safetensors");
}

TEST(Index, IgnoresOtherKeys) {
  const CheckpointIndex index = parse_checkpoint_index(
      R"({"metadata":{"weight_map":{"x":1},"list":[[{"a":null}]]},"weight_map":{"t":"m.safetensors"},"more":[1.5,true]})",
      "index");
  EXPECT_EQ(index.tensors.size(), 1U);
}

TEST(Index, Refuses) {
  const auto parse = [](const std::string& text) { (void)parse_checkpoint_index(text, "index"); };
  expect_error([&] { parse(""); }, {"index", "JSON"});
  expect_error([&] { parse("[]"); }, {"index", "a list", "object"});
  expect_error([&] { parse("{}"); }, {"index", "no weight_map"});
  expect_error([&] { parse(R"({"metadata":{"weight_map":{}}})"); }, {"index", "no weight_map"});
  expect_error([&] { parse(R"({"weight_map":[]})"); }, {"index", "weight_map is a list"});
  expect_error([&] { parse(R"({"weight_map":{},"weight_map":{}})"); }, {"index", "weight_map stands twice"});
  expect_error([&] { parse(R"({"weight_map":{"t":1}})"); }, {"index", "\"t\"", "a number"});
  expect_error([&] { parse(R"({"weight_map":{"t":{"x":"y"}}})"); }, {"index", "\"t\"", "an object"});
  expect_error([&] { parse(R"({"weight_map":{"t":"a.safetensors","t":"b.safetensors"}})"); },
               {"\"t\"", "twice"});
  expect_error([&] { parse("{\"x\":" + std::string(1000, '[') + std::string(1000, ']') + "}"); }, {"nested"});
  for (const char* const name : {"../x.safetensors", "/etc/x.safetensors", "x.bin", ".safetensors", "", "..",
                                 "a\\\\b.safetensors", "a\\u0000.safetensors"}) {
    SCOPED_TRACE(name);
    expect_error([&] { parse(cat(R"({"weight_map":{"t":")", name, R"("}})")); }, {"\"t\"", "same folder"});
  }
}

/// A linear search somewhere would take minutes.
TEST(Index, AsLargeAsThePublishedOne) {
  std::vector<std::pair<std::string, std::string>> map;
  for (int i = 0; i < 232'385; ++i) {
    map.emplace_back(cat("model.layers.", i % 79, ".mlp.experts.", i, ".gate_proj.weight_scale_2"),
                     cat("model-", i % 163, ".safetensors"));
  }
  const std::string text = checkpoint_index_text(map, 1);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_checkpoint_index(text, "index").tensors.size(), map.size());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(ConfigText, LeavesEveryOtherByte) {
  const std::string text =
      "{\n \"a\" : [1, {\"b\": \"}\\\"\"}],\"k\\u0065y\":{\"x\":[2]} ,\n\t\"z\": -1e5}\n";
  EXPECT_EQ(set_json_member(text, "key", "7"),
            "{\n \"a\" : [1, {\"b\": \"}\\\"\"}],\"k\\u0065y\":7 ,\n\t\"z\": -1e5}\n");
  EXPECT_EQ(set_json_member(text, "new", "[3]"), text.substr(0, text.size() - 2) + ",\n  \"new\": [3]}\n");
  EXPECT_EQ(remove_json_member(text, "key"), "{\n \"a\" : [1, {\"b\": \"}\\\"\"}] ,\n\t\"z\": -1e5}\n");
  EXPECT_EQ(remove_json_member(text, "a"), "{\n \"k\\u0065y\":{\"x\":[2]} ,\n\t\"z\": -1e5}\n");
  EXPECT_EQ(remove_json_member(text, "z"),
            "{\n \"a\" : [1, {\"b\": \"}\\\"\"}],\"k\\u0065y\":{\"x\":[2]}}\n");
  EXPECT_EQ(remove_json_member(text, "b"), text);
  EXPECT_EQ(remove_json_member(R"({"a":true})", "a"), "{}");
  for (const char* const key : {"a", "key", "z"}) {
    Json expected = Json::parse(text);
    expected.erase(key);
    EXPECT_EQ(Json::parse(remove_json_member(text, key)), expected);
  }
}

}  // namespace
}  // namespace glint
