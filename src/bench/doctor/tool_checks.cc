// Tools: who decides, what a call looks like whole and in chunks, how a result goes back.
#include <algorithm>

#include "bench/doctor/session.h"

namespace glint::bench {

namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kQuestion = "Get the weather of Paris.";
constexpr int64_t kTokens = 200;

const OrderedJson& weather_tool() {
  static const OrderedJson tool = OrderedJson::parse(R"({"type": "function", "function": {
      "name": "get_weather", "description": "Get the weather of a city.",
      "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}})");
  return tool;
}

const OrderedJson& clock_tool() {
  static const OrderedJson tool = OrderedJson::parse(R"({"type": "function", "function": {
      "name": "get_time", "description": "Get the time.", "parameters": {"type": "object", "properties": {}}}})");
  return tool;
}

OrderedJson with_tools(const OrderedJson& choice) {
  OrderedJson more{{"tools", OrderedJson::array({weather_tool(), clock_tool()})},
                   {"temperature", 0},
                   {"max_tokens", kTokens}};
  if (!choice.is_null()) more["tool_choice"] = choice;
  return more;
}

bool is_object_text(const std::string& text) {
  return Json::accept(text) && Json::parse(text).is_object();
}

/// One entry of message.tool_calls.
void check_call(const Json& call, Findings& findings) {
  findings.must(!text_of(call, "id").empty(), "a call without id");
  findings.must(text_of(call, "type") == "function", "a call's type is ", dump_json(member(call, "type")));
  const Json& function = member(call, "function");
  const std::string name = text_of(function, "name");
  findings.must(name == "get_weather" || name == "get_time", "a call of ", shown(name), ", which is no tool");
  findings.must(is_object_text(text_of(function, "arguments")),
                "arguments are no text of a JSON object: ", dump_json(member(function, "arguments")));
}

/// The message of a whole answer: its calls and its end belong together. How many calls there are.
size_t check_message(const Json& choice, Findings& findings) {
  const Json& message = member(choice, "message");
  const Json& calls = member(message, "tool_calls");
  const std::string finish = text_of(choice, "finish_reason");
  for (const Json& call : calls) check_call(call, findings);
  findings.must(calls.empty() || finish == "tool_calls" || finish == "stop" || finish == "length",
                "finish_reason is ", finish);
  findings.must(finish != "tool_calls" || !calls.empty(), "finish_reason is tool_calls and there is none");
  const std::string content = text_of(message, "content");
  for (const char* tag : {"<tool_call>", "</tool_call>", "<arg_key>", "<arg_value>"}) {
    findings.must(content.find(tag) == std::string::npos, "the content holds ", tag);
    findings.should(reasoning_of(message).find(tag) == std::string::npos, "the reasoning holds ", tag);
  }
  return calls.size();
}

void automatic(const Session& session, Findings& findings) {
  const Reply reply = session.post(kChat, session.chat(kQuestion, with_tools("auto")));
  if (!is_good(reply, findings)) return;
  const Json& choice = first_choice(reply.json);
  const size_t calls = check_message(choice, findings);
  if (calls == 0) return findings.note("the model did not call a tool");
  findings.should(text_of(choice, "finish_reason") == "tool_calls", "finish_reason is ",
                  text_of(choice, "finish_reason"), ", not tool_calls");
  const Reply bare = session.post(kChat, session.chat(kQuestion, {{"max_tokens", 1}}));
  findings.must(number_of(member(reply.json, "usage"), "prompt_tokens") >
                    number_of(member(bare.json, "usage"), "prompt_tokens"),
                "the tools are not in the prompt");
}

/// Id and name whole in a call's first delta, arguments behind it.
void check_deltas(const StreamReply& stream, Findings& findings) {
  std::vector<bool> seen;
  for (const Json& chunk : stream.chunks) {
    for (const Json& call : member(member(first_choice(chunk), "delta"), "tool_calls")) {
      const int64_t index = number_of(call, "index");
      if (!findings.must(index >= 0 && index <= static_cast<int64_t>(seen.size()),
                         "a call's delta with index ", index))
        return;
      const bool first = index == static_cast<int64_t>(seen.size());
      if (first) seen.push_back(true);
      const bool has_name = !text_of(member(call, "function"), "name").empty();
      findings.must(has_name == first,
                    first ? "a call's first delta has no name" : "a call's name comes in pieces or again");
      findings.should(!text_of(call, "id").empty() == first,
                      first ? "a call's first delta has no id" : "a call's id comes again");
    }
  }
}

void streamed(const Session& session, Findings& findings) {
  const Reply reply = session.post(kChat, session.chat(kQuestion, with_tools("auto")));
  const StreamReply stream = session.stream(kChat, session.chat(kQuestion, with_tools("auto")));
  if (!is_good(reply, findings) || !is_good(stream, findings)) return;
  check_deltas(stream, findings);
  const StreamReply::Choice sum = stream.choice();
  const Json& choice = first_choice(reply.json);
  const Json& calls = member(member(choice, "message"), "tool_calls");
  findings.must(sum.calls.size() == calls.size(), sum.calls.size(), " calls in the stream, ", calls.size(),
                " in the whole answer");
  for (size_t i = 0; i < std::min(sum.calls.size(), calls.size()); ++i) {
    const std::string arguments = text_of(sum.calls[i], "arguments");
    const Json& function = member(calls[i], "function");
    findings.must(is_object_text(arguments), "streamed arguments are no JSON object: ", shown(arguments));
    findings.must(text_of(sum.calls[i], "name") == text_of(function, "name"), "streamed name ",
                  text_of(sum.calls[i], "name"), ", whole ", text_of(function, "name"));
    findings.must(arguments == text_of(function, "arguments"), "streamed arguments ", shown(arguments),
                  ", whole ", shown(text_of(function, "arguments")));
  }
  findings.must(sum.finish == text_of(choice, "finish_reason"), "finish_reason streamed ", sum.finish,
                ", whole ", text_of(choice, "finish_reason"));
  findings.must(sum.content == text_of(member(choice, "message"), "content"), "contents differ: streamed ",
                shown(sum.content));
  if (calls.empty()) findings.note("the model did not call a tool");
}

void required(const Session& session, Findings& findings) {
  const Reply reply = session.post(kChat, session.chat("Hello, who are you?", with_tools("required")));
  if (!is_good(reply, findings)) return;
  const Json& choice = first_choice(reply.json);
  const size_t calls = check_message(choice, findings);
  findings.must(calls > 0 || text_of(choice, "finish_reason") == "length",
                "tool_choice required and no call");
  if (calls == 0) findings.note("cut by max_tokens before the call");
}

void named(const Session& session, Findings& findings) {
  const OrderedJson choice{{"type", "function"}, {"function", {{"name", "get_time"}}}};
  const Reply reply = session.post(kChat, session.chat(kQuestion, with_tools(choice)));
  if (!is_good(reply, findings)) return;
  const size_t calls = check_message(first_choice(reply.json), findings);
  for (const Json& call : member(member(first_choice(reply.json), "message"), "tool_calls")) {
    findings.must(text_of(member(call, "function"), "name") == "get_time",
                  "another tool than the named one is called");
  }
  findings.must(calls > 0 || text_of(first_choice(reply.json), "finish_reason") == "length",
                "a named tool and no call");
}

void none(const Session& session, Findings& findings) {
  const Reply reply = session.post(kChat, session.chat(kQuestion, with_tools("none")));
  if (!is_good(reply, findings)) return;
  findings.must(member(member(first_choice(reply.json), "message"), "tool_calls").empty(),
                "tool_choice none and a call");
  findings.must(text_of(first_choice(reply.json), "finish_reason") != "tool_calls",
                "tool_choice none and finish_reason tool_calls");
}

void round_trip(const Session& session, Findings& findings) {
  const OrderedJson call{{"id", "call_1"},
                         {"type", "function"},
                         {"function", {{"name", "get_weather"}, {"arguments", R"({"city": "Paris"})"}}}};
  const auto ask = [&](const char* what, const OrderedJson& arguments, const OrderedJson& result) {
    OrderedJson turn = call;
    turn["function"]["arguments"] = arguments;
    OrderedJson body = session.chat(kQuestion, with_tools(nullptr));
    body["max_tokens"] = 8;
    body["messages"].push_back(
        {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", OrderedJson::array({turn})}});
    body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", result}});
    const Reply reply = session.post(kChat, body);
    findings.must(reply.status() == 200, what, " gets ", reply.said());
    return number_of(member(reply.json, "usage"), "prompt_tokens");
  };
  const int64_t small = ask("a tool's result", R"({"city": "Paris"})", "sunny");
  const int64_t large = ask("a longer result", R"({"city": "Paris"})",
                            "sunny, then rain, then snow and a little hail in the evening");
  findings.must(large > small, "the tool's result does not reach the prompt");
  ask("a result in text parts", R"({"city": "Paris"})", {{{"type", "text"}, {"text", "sunny"}}});
  ask("a call without arguments", "{}", "sunny");
}

void other_fields(const Session& session, Findings& findings) {
  OrderedJson more = with_tools("auto");
  more["parallel_tool_calls"] = false;
  more["max_tokens"] = 4;
  const Reply reply = session.post(kChat, session.chat(kQuestion, more));
  findings.must(reply.status() == 200, "parallel_tool_calls false gets ", reply.said());
  const Reply strict =
      session.post(kChat, session.chat(kQuestion, {{"max_tokens", 2},
                                                   {"tools",
                                                    {{{"type", "function"},
                                                      {"function",
                                                       {{"name", "f"},
                                                        {"strict", true},
                                                        {"parameters",
                                                         {{"type", "object"},
                                                          {"properties", OrderedJson::object()},
                                                          {"additionalProperties", false}}}}}}}}}));
  findings.must(strict.status() == 200, "a strict tool gets ", strict.said());
  const Reply bare = session.post(
      kChat, session.chat(kQuestion, {{"max_tokens", 2},
                                      {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}}}));
  findings.must(bare.status() == 200, "a tool without parameters gets ", bare.said());
}

}  // namespace

void add_tool_checks(std::vector<DoctorCheck>& checks) {
  checks.push_back({"tools: auto", automatic});
  checks.push_back({"tools: streamed calls", streamed});
  checks.push_back({"tools: required", required});
  checks.push_back({"tools: named", named});
  checks.push_back({"tools: none", none});
  checks.push_back({"tools: results", round_trip});
  checks.push_back({"tools: other fields", other_fields});
}

}  // namespace glint::bench
