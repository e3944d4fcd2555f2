// POST /v1/responses and what belongs to it against a scripted engine: prompts, items, events, the store,
// background answers.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "api_fixture.h"
#include "byte_tokenizer.h"
#include "server/response_store.h"
#include "sse_reader.h"

namespace glint {
namespace {

OrderedJson ping_tools() {
  return OrderedJson::parse(R"([{"type": "function", "name": "ping_gateway", "description": "Pings.",
                                 "parameters": {"type": "object", "properties": {}}}])");
}

class ResponsesTest : public ApiTest {
 protected:
  [[nodiscard]] OrderedJson create(const OrderedJson& body) const {
    const RawResponse response = post("/v1/responses", body);
    EXPECT_EQ(response.status, 200) << response.body;
    return OrderedJson::parse(response.body);
  }
  [[nodiscard]] std::vector<SseEvent> stream(OrderedJson body) const {
    body["stream"] = true;
    const RawResponse response = post("/v1/responses", body);
    EXPECT_EQ(response.status, 200) << response.body;
    return read_sse(response.body);
  }
  void plays(const FakeScript& script) {
    engine->script = [script](const EngineRequest& /*request*/) { return script; };
  }
  [[nodiscard]] std::string prompt_of(const OrderedJson& body) const {
    static_cast<void>(create(body));
    return tokenizer->decode(engine->submitted().back().prompt, false);
  }
  [[nodiscard]] std::string refusal(const OrderedJson& body, int status = 400) const {
    const RawResponse response = post("/v1/responses", body);
    EXPECT_EQ(response.status, status) << response.body;
    return OrderedJson::parse(response.body).at("error").at("message");
  }
  [[nodiscard]] RawResponse get(const std::string& path) const { return fetch(port(), get_text(path)); }
  [[nodiscard]] RawResponse send(const std::string& method, const std::string& path) const {
    return fetch(port(), cat(method, " ", path,
                             " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"));
  }
};

const char* const kHead = "[gMASK]<sop><|system|>Reasoning Effort: Max";
const char* const kTail = "<|assistant|><think>";

std::string line_of(const SseEvent& event) {
  EXPECT_EQ(event.data.at("type"), event.name);
  std::string line = event.name;
  if (event.name == "response.output_item.added")
    line += " " + event.data.at("item").at("type").get<std::string>();
  return line;
}

TEST_F(ResponsesTest, TheSharedStreamCase) {
  start();
  std::ifstream file(std::string(GLINT_TEST_DATA) + "/text/text-cases.jsonl");
  int seen = 0;
  for (std::string line; std::getline(file, line);) {
    const OrderedJson one = OrderedJson::parse(line);
    if (!one.contains("endpoint") || one["endpoint"] != "/v1/responses") continue;
    ++seen;
    plays(script_of_pieces(one.at("chunks").get<std::vector<std::string>>()));
    std::vector<std::string> lines;
    int64_t number = 0;
    for (const SseEvent& event : stream({{"input", "Hi"}, {"tools", ping_tools()}})) {
      lines.push_back(line_of(event));
      EXPECT_EQ(event.data.at("sequence_number"), number++);
    }
    EXPECT_EQ(lines, one.at("expected").at("responses_events").get<std::vector<std::string>>())
        << one.at("id");
  }
  EXPECT_EQ(seen, 1);
}

/// What the deltas of the events make of each item, and that items, parts and deltas name each other rightly.
OrderedJson add_up_items(const std::vector<SseEvent>& events) {
  OrderedJson items = OrderedJson::array();
  std::string text;
  for (const auto& [name, data] : events) {
    if (name == "response.output_item.added") {
      EXPECT_EQ(data.at("output_index"), items.size());
      EXPECT_EQ(data.at("item").at("status"), "in_progress");
      items.push_back(data.at("item"));
      text.clear();
    } else if (name.ends_with(".delta")) {
      EXPECT_EQ(data.at("item_id"), items.back().at("id"));
      EXPECT_EQ(data.at("output_index").get<size_t>() + 1, items.size());
      text += data.at("delta").get<std::string>();
    } else if (name.ends_with("text.done")) {
      EXPECT_EQ(data.at("text"), text);
    } else if (name == "response.function_call_arguments.done") {
      EXPECT_EQ(data.at("arguments"), text);
    } else if (name == "response.output_item.done") {
      EXPECT_EQ(data.at("item").at("id"), items.back().at("id"));
      items.back() = data.at("item");
    }
  }
  EXPECT_EQ(events.front().name, "response.created");
  EXPECT_EQ(events.back().data.at("response").at("output"), items) << "the last event repeats the items";
  return items;
}

/// Ids are drawn anew for every answer.
OrderedJson without_ids(OrderedJson items) {
  for (OrderedJson& item : items) {
    item.erase("id");
    item.erase("call_id");
  }
  return items;
}

TEST_F(ResponsesTest, ItemsAtEveryCut) {
  start();
  const std::string text =
      "plan A</think>Let me look.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Köln</arg_value>"
      "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call><tool_call>ping_gateway</tool_call>";
  OrderedJson body{{"input", "Hi"}, {"tools", ping_tools()}};
  body["tools"].push_back(OrderedJson::parse(R"({"type": "function", "name": "get_weather", "parameters":
      {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}})"));
  plays(script_of(text));
  const OrderedJson whole = create(body);
  EXPECT_EQ(whole.at("status"), "completed");
  const OrderedJson expected = without_ids(whole.at("output"));
  ASSERT_EQ(expected.size(), 4U);
  EXPECT_EQ(expected[0].at("content").at(0).at("text"), "plan A");
  EXPECT_EQ(expected[1].at("content").at(0).at("text"), "Let me look.");
  EXPECT_EQ(expected[2].at("arguments"), R"({"city": "Köln", "days": 3})");
  EXPECT_EQ(expected[3].at("arguments"), "{}");
  for (size_t cut = 1; cut < text.size(); ++cut) {
    plays(script_of_pieces({text.substr(0, cut), text.substr(cut)}));
    const auto events = stream(body);
    EXPECT_EQ(without_ids(add_up_items(events)), expected) << cut;
    EXPECT_EQ(events.back().data.at("response").at("usage"), whole.at("usage"));
  }
}

TEST_F(ResponsesTest, WholeAnswer) {
  start();
  engine->cached_tokens_now = 3;
  const OrderedJson answer = create({{"model", "glm-5.3"},
                                     {"input", "Hi"},
                                     {"metadata", {{"k", "v"}}},
                                     {"instructions", "Be."},
                                     {"temperature", 0.5},
                                     {"max_output_tokens", 50}});
  EXPECT_EQ(answer.at("object"), "response");
  EXPECT_EQ(answer.at("id").get<std::string>().substr(0, 5), "resp_");
  EXPECT_EQ(answer.at("status"), "completed");
  EXPECT_EQ(answer.at("model"), "glm-5.3");
  EXPECT_EQ(answer.at("metadata").at("k"), "v");
  EXPECT_EQ(answer.at("instructions"), "Be.");
  EXPECT_EQ(answer.at("temperature"), 0.5);
  EXPECT_EQ(answer.at("top_p"), 1.0);
  EXPECT_EQ(answer.at("text").at("format").at("type"), "text");
  EXPECT_EQ(answer.at("tool_choice"), "auto");
  EXPECT_TRUE(answer.at("error").is_null());
  EXPECT_TRUE(answer.at("incomplete_details").is_null());
  EXPECT_EQ(answer.at("output").at(0).at("type"), "reasoning");
  EXPECT_EQ(answer.at("output").at(0).at("content").at(0).at("text"), "thought");
  EXPECT_EQ(
      answer.at("output").at(1).at("content").at(0),
      OrderedJson::parse(R"({"type": "output_text", "text": "answer", "annotations": [], "logprobs": []})"));
  const auto prompt = static_cast<int64_t>(engine->submitted()[0].prompt.size());
  const OrderedJson& usage = answer.at("usage");
  EXPECT_EQ(usage.at("input_tokens"), prompt);
  EXPECT_EQ(usage.at("output_tokens"), 15);
  EXPECT_EQ(usage.at("total_tokens"), prompt + 15);
  EXPECT_EQ(usage.at("output_tokens_details").at("reasoning_tokens"), 7);
  EXPECT_EQ(usage.at("input_tokens_details").at("cached_tokens"), 3);
  EXPECT_EQ(engine->submitted()[0].sampling.max_tokens, 50);
}

TEST_F(ResponsesTest, CutAnswersAreIncomplete) {
  start();
  plays(script_of("r</think>one two"));
  OrderedJson answer = create({{"input", "Hi"}, {"max_output_tokens", 4}});
  EXPECT_EQ(answer.at("status"), "incomplete");
  EXPECT_EQ(answer.at("incomplete_details").at("reason"), "max_output_tokens");
  EXPECT_EQ(answer.at("output").at(1).at("status"), "incomplete");
  const auto events = stream({{"input", "Hi"}, {"max_output_tokens", 4}});
  EXPECT_EQ(events.back().name, "response.incomplete");
  EXPECT_EQ(without_ids(add_up_items(events)), without_ids(answer.at("output")));
}

TEST_F(ResponsesTest, PromptsOfEveryItem) {
  start();
  const auto of = [&](const char* text) { return prompt_of(OrderedJson::parse(text)); };
  EXPECT_EQ(of(R"({"instructions": "S", "input": "q"})"), cat(kHead, "<|system|>S<|user|>q", kTail));
  EXPECT_EQ(of(R"({"input": [{"role": "developer", "content": "D"}, {"type": "message", "role": "user",
                   "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}]})"),
            cat(kHead, "<|system|>D<|user|>ab", kTail));
  // Reasoning, text and calls make one turn.
  EXPECT_EQ(of(R"({"input": [{"role": "user", "content": "q"},
      {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
      {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
       "content": [{"type": "output_text", "text": "Calling.", "annotations": []}]},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1}"},
      {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "G"}]},
      {"type": "function_call_output", "call_id": "c1", "output": "F"},
      {"type": "reasoning", "summary": [], "encrypted_content": "x"},
      {"role": "assistant", "content": "Done."},
      {"role": "user", "content": "next"}]})"),
            cat(kHead,
                "<|user|>q<|assistant|><think>hm</think>Calling.<tool_call>f<arg_key>a</"
                "arg_key><arg_value>1</arg_value>"
                "</tool_call><tool_call>g</tool_call><|observation|><tool_response>F</"
                "tool_response><tool_response>G"
                "</tool_response><|assistant|><think></think>Done.<|user|>next",
                kTail));
  // Two turns of reasoning and call stay two.
  EXPECT_EQ(of(R"({"input": [{"role": "user", "content": "q"},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": ""},
      {"type": "function_call_output", "call_id": "c1", "output": "F"},
      {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "more"}], "summary": []},
      {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c2", "output": "G"}]})"),
            cat(kHead,
                "<|user|>q<|assistant|><think></think><tool_call>f</tool_call><|observation|><tool_response>F"
                "</tool_response><|assistant|><think>more</think><tool_call>g</"
                "tool_call><|observation|><tool_response>G"
                "</tool_response>",
                kTail));
  EXPECT_NE(of(R"({"input": "q", "reasoning": {"effort": "low", "summary": "auto"}})").find("Effort: Low"),
            std::string::npos);
}

TEST_F(ResponsesTest, NamespacesAreFlattened) {
  start();
  plays(script_of("r</think><tool_call>crm__find<arg_key>q</arg_key><arg_value>x</arg_value></tool_call>"));
  const OrderedJson body =
      OrderedJson::parse(R"({"input": "q", "tools": [{"type": "namespace", "name": "crm", "description": "d",
      "tools": [{"type": "function", "name": "find", "parameters": {"type": "object"}}]}]})");
  const OrderedJson call = create(body).at("output").at(1);
  EXPECT_NE(tokenizer->decode(engine->submitted()[0].prompt, false).find("{\"name\": \"crm__find\""),
            std::string::npos);
  EXPECT_EQ(call.at("name"), "find");
  EXPECT_EQ(call.at("namespace"), "crm");
  EXPECT_EQ(without_ids(add_up_items(stream(body))).at(1).at("namespace"), "crm");
  OrderedJson again = body;
  again["input"] = OrderedJson::array({{{"role", "user"}, {"content", "q"}}, call});
  again["input"].push_back(
      {{"type", "function_call_output"}, {"call_id", call.at("call_id")}, {"output", "o"}});
  EXPECT_NE(prompt_of(again).find("<tool_call>crm__find<arg_key>"), std::string::npos);
}

TEST_F(ResponsesTest, StoredResponsesGoOn) {
  start();
  for (const bool streamed : {false, true}) {
    const OrderedJson first{{"input", "q1"}, {"instructions", "first only"}};
    const OrderedJson answer = streamed ? stream(first).back().data.at("response") : create(first);
    const std::string id = answer.at("id");
    EXPECT_EQ(OrderedJson::parse(get("/v1/responses/" + id).body), answer);
    const OrderedJson second{{"input", "q2"}, {"previous_response_id", id}, {"instructions", "second"}};
    EXPECT_EQ(
        prompt_of(second),
        cat(kHead, "<|system|>second<|user|>q1<|assistant|><think>thought</think>answer<|user|>q2", kTail));
    // And from there: the whole conversation.
    const OrderedJson third{{"input", "q3"}, {"previous_response_id", create(second).at("id")}};
    EXPECT_NE(
        prompt_of(third).find("<|user|>q1<|assistant|><think>thought</think>answer<|user|>q2<|assistant|>"
                              "<think>thought</think>answer<|user|>q3"),
        std::string::npos);
    EXPECT_EQ(OrderedJson::parse(send("DELETE", "/v1/responses/" + id).body).at("deleted"), true);
    EXPECT_EQ(get("/v1/responses/" + id).status, 404);
    EXPECT_EQ(send("DELETE", "/v1/responses/" + id).status, 404);
    EXPECT_NE(refusal(second, 404).find("not stored"), std::string::npos);
  }
  const std::string kept_not = create({{"input", "q"}, {"store", false}}).at("id");
  EXPECT_EQ(get("/v1/responses/" + kept_not).status, 404);
}

TEST_F(ResponsesTest, ACallGoesOnWithItsOutput) {
  start();
  plays(script_of("hm</think><tool_call>ping_gateway</tool_call>"));
  OrderedJson body{{"input", "q"}, {"tools", ping_tools()}};
  for (const bool streamed : {false, true}) {
    const OrderedJson answer = streamed ? stream(body).back().data.at("response") : create(body);
    OrderedJson next{{"previous_response_id", answer.at("id")}, {"tools", ping_tools()}};
    next["input"] = OrderedJson::array({{{"type", "function_call_output"},
                                         {"call_id", answer.at("output").at(1).at("call_id")},
                                         {"output", "pong"}}});
    EXPECT_NE(prompt_of(next).find(
                  "<think>hm</think><tool_call>ping_gateway</tool_call><|observation|><tool_response>pong"),
              std::string::npos);
  }
}

TEST_F(ResponsesTest, BackgroundAnswers) {
  automatic_steps = false;
  start();
  const OrderedJson body{{"input", "q"}, {"background", true}};
  const OrderedJson first = create(body);
  EXPECT_EQ(first.at("status"), "queued");
  const std::string path = "/v1/responses/" + first.at("id").get<std::string>();
  EXPECT_EQ(OrderedJson::parse(get(path).body).at("status"), "queued");
  ASSERT_TRUE(eventually([&] { return engine->running() == 1; }));
  engine->step();
  ASSERT_TRUE(eventually([&] { return OrderedJson::parse(get(path).body).at("status") == "in_progress"; }));
  EXPECT_EQ(OrderedJson::parse(get(path).body).at("output"), OrderedJson::array());
  while (engine->running() > 0) engine->step();
  ASSERT_TRUE(eventually([&] { return OrderedJson::parse(get(path).body).at("status") == "completed"; }));
  const OrderedJson done = OrderedJson::parse(get(path).body);
  EXPECT_EQ(done.at("id"), first.at("id"));
  EXPECT_EQ(done.at("output").at(1).at("content").at(0).at("text"), "answer");
  EXPECT_EQ(OrderedJson::parse(send("POST", path + "/cancel").body).at("status"), "completed")
      << "nothing left to cancel";

  const std::string other = "/v1/responses/" + create(body).at("id").get<std::string>();
  ASSERT_TRUE(eventually([&] { return engine->running() == 1; }));
  engine->step();
  EXPECT_EQ(OrderedJson::parse(send("POST", other + "/cancel").body).at("status"), "cancelled");
  ASSERT_TRUE(eventually([&] { return engine->running() == 0; }));
  EXPECT_EQ(engine->aborted(), 1U);
  EXPECT_EQ(OrderedJson::parse(get(other).body).at("status"), "cancelled");
  EXPECT_EQ(send("POST", "/v1/responses/resp_none/cancel").status, 404);
  const RawResponse items = get(path + "/input_items");
  EXPECT_EQ(items.status, 404);
  EXPECT_NE(items.body.find("there is no route"), std::string::npos) << items.body;
}

TEST_F(ResponsesTest, NoTwoResponsesHaveOneId) {
  automatic_steps = false;
  start();
  const auto ask = [&](RawClient& client, const OrderedJson& body) {
    ASSERT_TRUE(client.send(post_text("/v1/responses", dump_json(body), "X-Request-Id: gw-1\r\n")));
  };
  RawClient one(port()), two(port()), three(port());
  ask(one, {{"input", "q1"}});
  ask(two, {{"input", "q2"}});  // while the first runs
  ASSERT_TRUE(eventually([&] { return engine->running() == 2; }));
  while (engine->running() > 0) engine->step();
  std::set<std::string> ids;
  for (RawClient* client : {&one, &two, &three}) {
    if (client == &three) {  // after both
      ask(three, {{"input", "q3"}, {"background", true}});
    }
    const auto response = client->read();
    ASSERT_TRUE(response);
    const OrderedJson answer = OrderedJson::parse(response->body);
    ids.insert(answer.at("id"));
    if (client != &three) {
      EXPECT_EQ(OrderedJson::parse(get("/v1/responses/" + answer.at("id").get<std::string>()).body), answer);
    }
  }
  EXPECT_EQ(ids.size(), 3U);
  EXPECT_EQ(ids.count("resp_gw-1"), 1U);
  // An id is free again when its answer is gone.
  EXPECT_EQ(send("DELETE", "/v1/responses/resp_gw-1").status, 200);
  ASSERT_TRUE(eventually([&] { return engine->running() == 1; }));
  while (engine->running() > 0) engine->step();
  RawClient four(port());
  ask(four, {{"input", "q4"}, {"background", true}});
  const auto response = four.read();
  ASSERT_TRUE(response);
  EXPECT_EQ(OrderedJson::parse(response->body).at("id"), "resp_gw-1");
}

/// What the status of each item is, and what a call has of its arguments: "function_call incomplete {"a".
std::vector<std::string> items_of(const OrderedJson& response) {
  std::vector<std::string> items;
  for (const OrderedJson& item : response.at("output")) {
    items.push_back(cat(item.at("type").get<std::string>(), " ", item.at("status").get<std::string>()));
    if (item.contains("arguments")) items.back() += " " + item["arguments"].get<std::string>();
  }
  return items;
}

TEST_F(ResponsesTest, WhatWasCutIsIncompleteWholeAndStreamed) {
  start();
  OrderedJson tools = ping_tools();
  tools[0]["name"] = "find";
  tools[0]["parameters"] = {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}};
  const std::string call =
      "hm</think>so<tool_call>find<arg_key>city</arg_key><arg_value>Bonn</arg_value></tool_call>";
  using Items = std::vector<std::string>;
  const std::pair<const char*, Items> cases[] = {
      {"h", {"reasoning incomplete"}},
      {"hm</think>s", {"reasoning completed", "message incomplete"}},
      {"hm</think>so<tool_call>find<arg_key>city</arg_key><arg_value>Bo",
       {"reasoning completed", "message completed", R"(function_call incomplete {"city": "Bo)"}},
      {call.c_str(),
       {"reasoning completed", "message completed", R"(function_call completed {"city": "Bonn"})"}}};
  plays(script_of(call + "after"));
  for (const auto& [seen, items] : cases) {
    OrderedJson body{{"input", "q"}, {"tools", tools}, {"max_output_tokens", ids_of(seen).size()}};
    const OrderedJson whole = create(body);
    EXPECT_EQ(whole.at("status"), "incomplete") << seen;
    EXPECT_EQ(items_of(whole), items) << seen;
    EXPECT_EQ(items_of(stream(body).back().data.at("response")), items) << seen;
  }
}

TEST_F(ResponsesTest, OnlyBackgroundAnswersCanBeCancelled) {
  start();
  const std::string id = create({{"input", "q"}}).at("id");
  EXPECT_EQ(send("POST", "/v1/responses/" + id + "/cancel").status, 400);
  FakeScript script = script_of("abc");
  script.finish = FinishReason::error;
  script.error = "no pages left";
  plays(script);
  const std::string path =
      "/v1/responses/" + create({{"input", "q"}, {"background", true}}).at("id").get<std::string>();
  ASSERT_TRUE(eventually([&] { return OrderedJson::parse(get(path).body).at("status") == "failed"; }));
  EXPECT_EQ(OrderedJson::parse(get(path).body).at("error").at("message"), "no pages left");
}

TEST_F(ResponsesTest, AnEngineErrorMidStream) {
  start();
  FakeScript script = script_of("abc");
  script.finish = FinishReason::error;
  script.error = "no pages left";
  plays(script);
  const auto events = stream({{"input", "q"}});
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events[events.size() - 2].name, "error");
  EXPECT_EQ(events[events.size() - 2].data.at("message"), "no pages left");
  EXPECT_EQ(events.back().name, "response.failed");
  EXPECT_EQ(events.back().data.at("response").at("status"), "failed");
  EXPECT_EQ(post("/v1/responses", {{"input", "q"}}).status, 500);
}

TEST_F(ResponsesTest, AServerThatKeepsNothing) {
  settings.response_store_bytes = 0;
  start();
  EXPECT_EQ(create({{"input", "q"}}).at("store"), false);
  EXPECT_NE(refusal({{"input", "q"}, {"background", true}}).find("background"), std::string::npos);
}

TEST_F(ResponsesTest, Refusals) {
  start();
  const auto with = [](const char* key, const char* value) {
    OrderedJson body{{"input", "q"}};
    body[key] = OrderedJson::parse(value);
    return body;
  };
  EXPECT_EQ(refusal(OrderedJson::object()), "input is missing");
  EXPECT_NE(refusal(with("input", "[]")).find("input"), std::string::npos);
  EXPECT_NE(refusal(with("input", "7")).find("input"), std::string::npos);
  EXPECT_NE(refusal(with("input", R"([{"type": "item_reference", "id": "x"}])")).find("input.0.type"),
            std::string::npos);
  EXPECT_NE(
      refusal(with("input", R"([{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}])"))
          .find("text only"),
      std::string::npos);
  EXPECT_NE(refusal(with("input", R"([{"role": "robot", "content": "x"}])")).find("input.0.role"),
            std::string::npos);
  EXPECT_NE(refusal(with("prompt", R"({"id": "p"})")).find("prompt"), std::string::npos);
  EXPECT_NE(refusal(with("tools", R"([{"type": "web_search"}])")).find("web_search"), std::string::npos);
  EXPECT_NE(refusal(with("tool_choice", R"({"type": "file_search"})")).find("tool_choice.type"),
            std::string::npos);
  EXPECT_NE(refusal(with("include", R"(["file_search_call.results"])")).find("include"), std::string::npos);
  EXPECT_NE(refusal(with("truncation", "\"some\"")).find("truncation"), std::string::npos);
  EXPECT_NE(refusal(with("text", R"({"format": {"type": "json_schema"}})")).find("text.format.schema"),
            std::string::npos);
  EXPECT_NE(refusal(with("temperature", "3")).find("temperature"), std::string::npos);
  OrderedJson both{{"input", "q"}, {"background", true}, {"stream", true}};
  EXPECT_NE(refusal(both).find("background"), std::string::npos);
}

TEST_F(ResponsesTest, RefusalsNameWhatWasSent) {
  start();
  engine->limits_now.max_model_len = 200;
  const char* const call = R"({"type": "function_call", "call_id": "c", "name": "f", "arguments": )";
  const std::string two_calls =
      cat("[{\"role\": \"user\", \"content\": \"q\"}, ", call, "\"{}\"}, ", call, "\"{bad\"}]");
  const std::string spaces =
      R"([{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", "parameters": 3}]}])";
  const std::string longer = cat("\"", std::string(300, 'x'), "\"");
  struct Case {
    const char* field;
    std::string value;
    std::string param;
  };
  const Case cases[] = {{"max_output_tokens", "0", "max_output_tokens"},
                        {"max_output_tokens", "\"a\"", "body.max_output_tokens"},
                        {"max_output_tokens", "5000", "max_output_tokens"},
                        {"min_tokens", "5000", "min_tokens"},
                        {"input", longer, "input"},
                        {"input", two_calls, "input.2.arguments"},
                        {"input", R"([{"role": "user", "content": 5}])", "input.0.content"},
                        {"text", R"({"format": {"type": "x"}})", "text.format"},
                        {"reasoning", R"({"effort": "bogus"})", "reasoning.effort"},
                        {"tools", spaces, "tools.0.tools.0.parameters"},
                        {"tools", R"([{"type": "function", "name": ""}])", "tools.0.name"}};
  for (const Case& one : cases) {
    for (const bool instructed : {false, true}) {
      OrderedJson body{{"input", "q"}, {"max_output_tokens", 20}};
      if (std::string_view(one.field) == "input") body.erase("max_output_tokens");
      if (instructed) body["instructions"] = "i";
      body[one.field] = OrderedJson::parse(one.value);
      const RawResponse response = post("/v1/responses", body);
      EXPECT_EQ(response.status, 400) << one.field << one.value;
      const OrderedJson error = OrderedJson::parse(response.body).at("error");
      EXPECT_EQ(error.at("param"), one.param) << response.body;
      const std::string message = error.at("message");
      const std::string name = one.param.substr(one.param.starts_with("body.") ? 5 : 0);
      EXPECT_NE(message.find(name), std::string::npos) << message;
      for (const char* foreign :
           {"messages", "max_tokens", "max_completion", "response_format", "reasoning_"})
        EXPECT_EQ(message.find(foreign), std::string::npos) << message;
    }
  }
  EXPECT_EQ(refusal({{"input", OrderedJson::parse(R"([{"role": "user", "content": 5}])")}}),
            "input.0.content must be a string or a list, not a number");
  // What the client wrote is not translated.
  EXPECT_NE(refusal({{"input", "q"}, {"reasoning", {{"effort", "max_tokens"}}}}).find("\"max_tokens\""),
            std::string::npos);
}

/// What is sampled under is what the same request gets from /v1/chat/completions.
TEST_F(ResponsesTest, ConstrainedAsInChat) {
  if (!grammars_built()) GTEST_SKIP() << kGrammarsNotBuilt;
  use_grammars();
  start();
  const OrderedJson schema = OrderedJson::parse(
      R"({"type": "object", "properties": {"city": {"enum": ["Bonn", "Köln"]}, "days": {"type": "integer", "maximum": 9}},
          "required": ["days"], "additionalProperties": false})");
  const auto expect_same = [&](const char* what, const OrderedJson& own, const OrderedJson& of_chat,
                               bool constrained) {
    OrderedJson body{{"input", "Hi"}, {"tools", ping_tools()}};
    body["tools"].push_back({{"type", "function"}, {"name", "forecast"}, {"parameters", schema}});
    body.update(own);
    OrderedJson twin = user_request();
    for (const OrderedJson& tool : body["tools"]) {
      OrderedJson function{{"name", tool["name"]}, {"parameters", tool["parameters"]}};
      twin["tools"].push_back({{"type", "function"}, {"function", std::move(function)}});
    }
    twin.update(of_chat);
    expect_masks_of_chat(
        what, [&] { static_cast<void>(create(body)); }, twin, constrained);
  };
  const OrderedJson named = OrderedJson::parse(R"({"type": "function", "function": {"name": "forecast"}})");
  const OrderedJson format{{"type", "json_schema"}, {"name", "f"}, {"schema", schema}, {"strict", true}};
  expect_same("required", {{"tool_choice", "required"}}, {{"tool_choice", "required"}}, true);
  expect_same("one", {{"tool_choice", "required"}, {"parallel_tool_calls", false}},
              {{"tool_choice", "required"}, {"parallel_tool_calls", false}}, true);
  expect_same("function", {{"tool_choice", {{"type", "function"}, {"name", "forecast"}}}},
              {{"tool_choice", named}}, true);
  expect_same("auto", {{"tool_choice", "auto"}}, {{"tool_choice", "auto"}},
              settings.tool_call_constraint == ToolCallConstraintMode::all);
  expect_same("none", {{"tool_choice", "none"}}, {{"tool_choice", "none"}}, false);
  expect_same("json_schema", {{"text", {{"format", format}}}},
              {{"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", schema}}}}}}, true);
  expect_same("json_object", {{"text", {{"format", {{"type", "json_object"}}}}}},
              {{"response_format", {{"type", "json_object"}}}}, true);
}

TEST_F(ResponsesTest, DemandedCallsAndRefusedForms) {
  if (!grammars_built()) GTEST_SKIP() << kGrammarsNotBuilt;
  use_grammars();
  start();
  const OrderedJson spaced =
      OrderedJson::parse(R"({"input": "q", "tools": [{"type": "namespace", "name": "crm", "description": "d",
      "tools": [{"type": "function", "name": "find", "parameters": {"type": "object"}}]}],
      "tool_choice": {"type": "function", "name": "find", "namespace": "crm"}})");
  plays(script_of("r</think><tool_call>crm__find</tool_call>"));
  const OrderedJson answer = create(spaced);
  EXPECT_EQ(answer.at("status"), "completed");
  EXPECT_EQ(without_ids(answer.at("output")).at(1).at("name"), "find");
  OrderedJson body = spaced;
  body["tool_choice"].erase("namespace");
  EXPECT_NE(refusal(body).find("find"), std::string::npos) << "no tool has that name alone";
  // The form by the name that the client gave it.
  const auto format = [&](const char* text) {
    return refusal({{"input", "q"}, {"text", {{"format", OrderedJson::parse(text)}}}});
  };
  EXPECT_EQ(
      format(R"({"type": "json_schema", "schema": {"type": "thing"}})").rfind("text.format.schema: ", 0), 0U);
  EXPECT_EQ(format(R"({"type": "xml"})").rfind("text.format of type \"xml\"", 0), 0U);
}

TEST_F(ResponsesTest, EveryFieldWithEveryTypeIsNever500) {
  start();
  for (const char* field :
       {"input", "instructions", "tools", "tool_choice", "reasoning", "text", "stream", "store", "background",
        "previous_response_id", "include", "metadata", "truncation", "max_output_tokens", "top_logprobs",
        "parallel_tool_calls", "temperature", "user", "model"}) {
    for (const char* value :
         {"null", "true", "7", "-1", "1.5", "\"x\"", "[]", "[null]", "[[]]", "[{}]", "{}", R"({"type": 3})",
          R"({"type": "x"})", R"([{"type": "function"}])", R"([{"type": "namespace"}])",
          R"([{"role": "user", "content": [null]}])", R"({"format": 3})", R"({"effort": 3})"}) {
      OrderedJson body{{"input", "q"}};
      body[field] = OrderedJson::parse(value);
      const int status = post("/v1/responses", body).status;
      EXPECT_TRUE(status == 200 || status == 400 || status == 404) << field << " " << value << " " << status;
    }
  }
}

TEST(ResponseStore, IsBounded) {
  ResponseStore store(100, 3);
  const auto entry = [](size_t bytes) {
    StoredResponse out;
    out.response = std::string(bytes, 'x');
    return out;
  };
  store.put("a", entry(39));
  store.put("b", entry(39));
  EXPECT_EQ(store.bytes(), 80U);
  store.put("c", entry(39));
  EXPECT_FALSE(store.find("a")) << "the oldest made room";
  EXPECT_TRUE(store.find("b") && store.find("c"));
  store.put("b", entry(9));
  EXPECT_EQ(store.bytes(), 50U);
  store.put("big", entry(200));
  EXPECT_FALSE(store.find("big"));
  EXPECT_EQ(store.bytes(), 0U);
  for (const char* id : {"1", "2", "3", "4"}) store.put(id, entry(1));
  EXPECT_FALSE(store.find("1"));
  EXPECT_TRUE(store.find("4"));
  StoredResponse done = entry(2);
  done.finished = true;
  EXPECT_TRUE(store.finish("4", done));
  EXPECT_FALSE(store.finish("4", done)) << "only once";
  EXPECT_FALSE(store.finish("gone", done));
}

}  // namespace
}  // namespace glint
