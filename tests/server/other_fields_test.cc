// Every field of the Responses and the Messages API: honoured or ignored (200), or refused by its name (400).
#include <gtest/gtest.h>

#include "api_fixture.h"

namespace glint {
namespace {

class OtherFields : public ApiTest {
 protected:
  struct Row {
    const char* field;
    const char* value;
    int status;
  };
  void check(const char* path, const OrderedJson& request, std::span<const Row> rows) const {
    for (const Row& row : rows) {
      SCOPED_TRACE(std::string(row.field) + " " + row.value);
      OrderedJson body = request;
      body[row.field] = OrderedJson::parse(row.value);
      const RawResponse response = post(path, body);
      EXPECT_EQ(response.status, row.status) << response.body;
      if (row.status == 400) {
        const std::string message = OrderedJson::parse(response.body).at("error").at("message");
        EXPECT_NE(message.find(row.field), std::string::npos) << message;
      }
      if (request.contains(row.field)) continue;
      body[row.field] = nullptr;
      EXPECT_EQ(post(path, body).status, 200) << "null is the same as absent";
    }
  }
};

TEST_F(OtherFields, OfResponses) {
  start();
  constexpr Row kRows[] = {
      {"input", "\"Hi\"", 200},
      {"input", R"([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}])",
       200},
      {"input", "5", 400},
      {"instructions", "\"Be brief.\"", 200},
      {"instructions", "5", 400},
      {"model", "\"glm-5.3\"", 200},
      {"max_output_tokens", "5", 200},
      {"temperature", "1", 200},
      {"temperature", "3", 400},
      {"top_p", "0.5", 200},
      {"top_k", "5", 200},
      {"tools", R"([{"type": "function", "name": "f", "parameters": {}, "strict": true}])", 200},
      {"tools", R"([{"type": "web_search"}])", 400},
      {"tool_choice", "\"none\"", 200},
      {"tool_choice", "\"sometimes\"", 400},
      {"parallel_tool_calls", "false", 200},
      {"reasoning", R"({"effort": "low", "summary": "auto"})", 200},
      {"reasoning", "\"low\"", 400},
      {"text", R"({"format": {"type": "text"}, "verbosity": "low"})", 200},
      {"text", R"({"format": {"type": "json_schema", "name": "x"}})", 400},
      {"stream", "true", 200},
      {"store", "false", 200},
      {"store", "5", 400},
      {"include", R"(["reasoning.encrypted_content"])", 200},
      {"include", R"(["file_search_call.results"])", 400},
      {"metadata", R"({"a": "b"})", 200},
      {"truncation", "\"auto\"", 200},
      {"truncation", "\"middle\"", 400},
      {"background", "true", 200},
      {"stop", R"(["x"])", 200},
      {"stop", "\"\"", 400},
      {"seed", "1", 200},
      {"ignore_eos", "true", 200},
      {"user", "\"u\"", 200},
      {"service_tier", "\"auto\"", 200},
      {"max_tool_calls", "3", 200},
      {"prompt_cache_key", "\"k\"", 200},
      {"prompt", R"({"id": "p"})", 400},
      {"conversation", "\"c\"", 400},
      {"top_logprobs", "3", 400},
      {"a_field_nobody_knows", "{}", 200},
  };
  check("/v1/responses", {{"input", "Hi"}}, kRows);
}

TEST_F(OtherFields, OfMessages) {
  start();
  constexpr Row kRows[] = {
      {"model", "\"glm-5.3\"", 200},
      {"max_tokens", "5", 200},
      {"max_tokens", "0", 400},
      {"system", "\"Be brief.\"", 200},
      {"system", R"([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])", 200},
      {"system", "5", 400},
      {"tools", R"([{"name": "f", "description": "d", "input_schema": {"type": "object"}}])", 200},
      {"tools", R"([{"name": "f"}])", 400},
      {"tool_choice", R"({"type": "none"})", 200},
      {"tool_choice", R"({"type": "sometimes"})", 400},
      {"stop_sequences", R"(["x"])", 200},
      {"stop_sequences", "5", 400},
      {"stream", "true", 200},
      {"temperature", "0", 200},
      {"temperature", "3", 400},
      {"top_p", "0.5", 200},
      {"top_k", "5", 200},
      {"thinking", R"({"type": "enabled", "budget_tokens": 2000})", 200},
      {"thinking", R"({"type": "disabled"})", 200},
      {"thinking", R"({"type": "adaptive"})", 200},
      {"thinking", R"({"type": "sometimes"})", 400},
      {"output_config", R"({"effort": "low"})", 200},
      {"output_config", "5", 400},
      {"chat_template_kwargs", R"({"reasoning_effort": "low"})", 200},
      {"chat_template_kwargs", "[]", 400},
      {"metadata", R"({"user_id": "u"})", 200},
      {"service_tier", "\"auto\"", 200},
      {"container", "\"c\"", 200},
      {"context_management", "{}", 200},
      {"mcp_servers", R"([{"url": "http://x"}])", 400},
      {"a_field_nobody_knows", "{}", 200},
  };
  OrderedJson request = user_request();
  request["max_tokens"] = 20;
  check("/v1/messages", request, kRows);
}

}  // namespace
}  // namespace glint
