// Wrong requests: the status, and the form of what is said.
#include "bench/doctor/session.h"

namespace glint::bench {

namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

/// {"error": {"message", "type", "param", "code"}}.
void check_form(const Reply& reply, Findings& findings) {
  const Json& error = member(reply.json, "error");
  if (!findings.must(error.is_object(), "the answer has no error object: ", shown(reply.http.body))) return;
  findings.must(!text_of(error, "message").empty(), "the error has no message");
  findings.should(!text_of(error, "type").empty(), "the error has no type");
  findings.should(error.contains("param"), "the error has no param");
  findings.should(member(error, "code") == reply.status(), "the error's code is ",
                  dump_json(member(error, "code")), ", the status ", reply.status());
}

/// A request that must be refused. Taking it is a difference, failing over it a fault.
void refused(const Reply& reply, Findings& findings) {
  if (!findings.must(reply.status() != 0, "no answer: ", reply.http.error)) return;
  findings.must(reply.status() < 500, "answered ", reply.said());
  if (reply.status() == 200) {
    findings.should(false, "accepted");
    return;
  }
  findings.should(reply.status() == 400, "answered ", reply.status(), ", not 400");
  check_form(reply, findings);
}

void unknown_model(const Session& session, Findings& findings) {
  for (const char* path : {kChat, kCompletions}) {
    OrderedJson body = path == kChat ? session.chat("Hi", {{"max_tokens", 1}})
                                     : session.completion("Hi", {{"max_tokens", 1}});
    body["model"] = "no-such-model-here";
    const Reply reply = session.post(path, body);
    if (!findings.should(reply.status() == 404, path, ": an unknown model gets ", reply.said())) continue;
    check_form(reply, findings);
    findings.should(text_of(member(reply.json, "error"), "type") == "NotFoundError", "the error's type is ",
                    dump_json(member(member(reply.json, "error"), "type")), ", not NotFoundError");
    findings.should(error_message(reply.http.body).find("no-such-model-here") != std::string::npos,
                    "the message does not name the model");
  }
}

void broken_bodies(const Session& session, Findings& findings) {
  for (const char* body : {"{", "", "[1, 2]", "\"text\"", "{\"model\": \"\xff\"}", "nonsense"}) {
    const Reply reply = session.send("POST", kChat, {}, body);
    Findings one;
    refused(reply, one);
    findings.must(one.verdict() != Verdict::fail, "the body ", shown(body), ": ", one.text());
    findings.should(one.verdict() != Verdict::diff, "the body ", shown(body), ": ", one.text());
  }
}

void content_type(const Session& session, Findings& findings) {
  const std::string body = dump_json(session.chat("Hi", {{"max_tokens", 1}}));
  const Reply reply = session.send("POST", kChat, {{"Content-Type", "text/plain"}}, body);
  findings.must(reply.status() != 0 && reply.status() < 500, "answered ", reply.said());
  findings.should(reply.status() == 400 || reply.status() == 415, "text/plain gets ", reply.said());
  const Reply charset =
      session.send("POST", kChat, {{"Content-Type", "application/json; charset=utf-8"}}, body);
  findings.must(charset.status() == 200, "application/json; charset=utf-8 gets ", charset.said());
}

void in_a_stream(const Session& session, Findings& findings) {
  const StreamReply stream =
      session.stream(kChat, session.chat("Hi", {{"temperature", -1}, {"max_tokens", 1}}));
  findings.should(stream.http.status == 400, "a wrong request for a stream gets ", stream.http.status,
                  ", not 400");
}

void too_long(const Session& session, Findings& findings) {
  const int64_t room = session.max_model_len();
  if (room <= 0 || room > 200'000)
    return findings.skip("max_model_len is ", room == 0 ? "not told" : "too large to fill");
  std::string text;
  for (int64_t i = 0; i < room + 16; ++i) text += " x1";
  Findings long_prompt;
  refused(session.post(kCompletions, session.completion(text, {{"max_tokens", 1}})), long_prompt);
  findings.must(long_prompt.verdict() == Verdict::pass, "a prompt above the context: ", long_prompt.text());
  Findings long_answer;
  refused(session.post(kCompletions, session.completion("Hi", {{"max_tokens", room + 1}})), long_answer);
  findings.should(long_answer.verdict() == Verdict::pass,
                  "max_tokens above the context: ", long_answer.text());
}

struct Wrong {
  const char* name;
  const char* path;
  OrderedJson fields;
};

std::vector<Wrong> wrong_requests() {
  const OrderedJson tool = OrderedJson::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])");
  return {
      {"temperature a text", kChat, {{"temperature", "hot"}}},
      {"temperature -1", kChat, {{"temperature", -1}}},
      {"temperature 3", kChat, {{"temperature", 3}}},
      {"top_p 0", kChat, {{"top_p", 0}}},
      {"top_p 1.5", kChat, {{"top_p", 1.5}}},
      {"top_k -5", kChat, {{"top_k", -5}}},
      {"min_p 2", kChat, {{"min_p", 2}}},
      {"presence_penalty 3", kChat, {{"presence_penalty", 3}}},
      {"frequency_penalty -3", kChat, {{"frequency_penalty", -3}}},
      {"repetition_penalty 0", kChat, {{"repetition_penalty", 0}}},
      {"n 0", kChat, {{"n", 0}}},
      {"n a text", kChat, {{"n", "two"}}},
      {"n 2 at temperature 0", kChat, {{"n", 2}, {"temperature", 0}}},
      {"max_tokens 0", kChat, {{"max_tokens", 0}}},
      {"max_tokens -1", kChat, {{"max_tokens", -1}}},
      {"max_tokens a text", kChat, {{"max_tokens", "many"}}},
      {"min_tokens above max_tokens", kChat, {{"min_tokens", 5}, {"max_tokens", 2}}},
      {"an empty stop", kChat, {{"stop", {""}}}},
      {"stop a number", kChat, {{"stop", 5}}},
      {"seed a text", kChat, {{"seed", "x"}}},
      {"logit_bias of no id", kChat, {{"logit_bias", {{"x", 1}}}}},
      {"logit_bias beyond the vocabulary", kChat, {{"logit_bias", {{"99999999", 1}}}}},
      {"top_logprobs without logprobs", kChat, {{"top_logprobs", 2}}},
      {"top_logprobs 1000", kChat, {{"logprobs", true}, {"top_logprobs", 1000}}},
      {"stream_options without stream", kChat, {{"stream_options", {{"include_usage", true}}}}},
      {"stream a text", kChat, {{"stream", "yes"}}},
      {"no messages", kChat, {{"messages", OrderedJson::array()}}},
      {"messages a text", kChat, {{"messages", "Hi"}}},
      {"an unknown role", kChat, {{"messages", {{{"role", "ghost"}, {"content", "Hi"}}}}}},
      {"content a number", kChat, {{"messages", {{{"role", "user"}, {"content", 5}}}}}},
      {"a message without role", kChat, {{"messages", {{{"content", "Hi"}}}}}},
      {"empty tools", kChat, {{"tools", OrderedJson::array()}}},
      {"a tool without function", kChat, {{"tools", {{{"type", "function"}}}}}},
      {"tool_choice without tools", kChat, {{"tool_choice", "required"}}},
      {"tool_choice of no tool",
       kChat,
       {{"tools", tool}, {"tool_choice", {{"type", "function"}, {"function", {{"name", "g"}}}}}}},
      {"tool_choice an unknown word", kChat, {{"tools", tool}, {"tool_choice", "maybe"}}},
      {"response_format an unknown type", kChat, {{"response_format", {{"type", "poem"}}}}},
      {"json_schema without schema", kChat, {{"response_format", {{"type", "json_schema"}}}}},
      {"an unknown reasoning_effort", kChat, {{"reasoning_effort", "bogus"}}},
      {"completions, no prompt", kCompletions, {{"prompt", nullptr}}},
      {"completions, prompt a number", kCompletions, {{"prompt", 5}}},
      {"completions, an id beyond the vocabulary", kCompletions, {{"prompt", {99999999}}}},
      {"completions, logprobs 1000", kCompletions, {{"logprobs", 1000}}},
      {"completions, logprobs a text", kCompletions, {{"logprobs", "all"}}},
  };
}

}  // namespace

void add_error_checks(std::vector<DoctorCheck>& checks) {
  checks.push_back({"errors: unknown model", unknown_model});
  checks.push_back({"errors: broken bodies", broken_bodies});
  checks.push_back({"errors: content type", content_type});
  checks.push_back({"errors: before a stream", in_a_stream});
  checks.push_back({"errors: too long", too_long});
  for (Wrong& wrong : wrong_requests()) {
    const std::string name = cat("errors: ", wrong.name);
    checks.push_back({name, [wrong = std::move(wrong)](const Session& session, Findings& findings) {
                        OrderedJson body = wrong.path == std::string_view(kChat)
                                               ? session.chat("Hi", {{"max_tokens", 2}})
                                               : session.completion("Hi", {{"max_tokens", 2}});
                        body.update(wrong.fields);
                        refused(session.post(wrong.path, body), findings);
                      }});
  }
}

}  // namespace glint::bench
