// /v1/chat/completions: answers, chunks, usage, reasoning.
#include <algorithm>
#include <set>

#include "base/utf8.h"
#include "bench/doctor/session.h"

namespace glint::bench {

namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kQuestion = "What is 345 + 278?";

OrderedJson greedy(int64_t max_tokens) {
  return {{"temperature", 0}, {"max_tokens", max_tokens}};
}

void check_usage(const Json& usage, int64_t max_tokens, Findings& findings) {
  if (!findings.must(usage.is_object(), "no usage")) return;
  const int64_t prompt = number_of(usage, "prompt_tokens");
  const int64_t completion = number_of(usage, "completion_tokens");
  findings.must(prompt > 0, "usage.prompt_tokens is ", prompt);
  findings.must(completion > 0 && completion <= max_tokens, "usage.completion_tokens is ", completion,
                " for max_tokens ", max_tokens);
  findings.must(number_of(usage, "total_tokens") == prompt + completion, "usage.total_tokens is not the sum");
  const Json& details = member(usage, "completion_tokens_details");
  const int64_t reasoning = number_of(details, "reasoning_tokens");
  findings.should(reasoning <= completion, "more reasoning tokens than tokens");
}

bool known_finish(const std::string& finish) {
  return finish == "stop" || finish == "length" || finish == "tool_calls" || finish == "content_filter";
}

void whole(const Session& session, Findings& findings) {
  const Reply reply = session.post(kChat, session.chat(kQuestion, greedy(24)));
  if (!is_good(reply, findings)) return;
  findings.must(text_of(reply.json, "object") == "chat.completion", "object is ",
                dump_json(member(reply.json, "object")));
  findings.should(text_of(reply.json, "id").starts_with("chatcmpl-"), "the id is ",
                  shown(text_of(reply.json, "id")));
  findings.must(member(reply.json, "created").is_number_integer(), "created is no whole number");
  findings.must(text_of(reply.json, "model") == session.model(), "model is ",
                shown(text_of(reply.json, "model")), ", not ", session.model());
  const Json& choices = member(reply.json, "choices");
  findings.must(choices.is_array() && choices.size() == 1, "not one choice");
  const Json& choice = first_choice(reply.json);
  findings.must(number_of(choice, "index") == 0, "the choice's index is not 0");
  const Json& message = member(choice, "message");
  findings.must(text_of(message, "role") == "assistant", "the message's role is ",
                dump_json(member(message, "role")));
  const Json& content = member(message, "content");
  findings.must(content.is_string() || content.is_null(), "content is neither text nor null");
  findings.must(known_finish(text_of(choice, "finish_reason")), "finish_reason is ",
                dump_json(member(choice, "finish_reason")));
  check_usage(member(reply.json, "usage"), 24, findings);
}

void reasoning(const Session& session, Findings& findings) {
  const Reply reply = session.post(kChat, session.chat(kQuestion, greedy(24)));
  if (!is_good(reply, findings)) return;
  const Json& message = member(first_choice(reply.json), "message");
  const std::string content = text_of(message, "content");
  findings.must(content.find("<think>") == std::string::npos && content.find("</think>") == std::string::npos,
                "think tags in the content: ", shown(content));
  findings.should(
      message.contains("reasoning") || message.contains("reasoning_content"),
      "neither `reasoning` nor `reasoning_content` in the message (no reasoning parser, or no such model)");
  findings.should(
      member(member(reply.json, "usage"), "completion_tokens_details").contains("reasoning_tokens"),
      "usage has no completion_tokens_details.reasoning_tokens");
}

/// Fields that every chunk has, the same in all.
void check_chunk_heads(const StreamReply& stream, const char* object, Findings& findings) {
  std::set<std::string> ids;
  for (const Json& chunk : stream.chunks) {
    ids.insert(text_of(chunk, "id"));
    if (!findings.must(text_of(chunk, "object") == object, "a chunk's object is ",
                       dump_json(member(chunk, "object"))))
      break;
  }
  findings.must(ids.size() == 1 && !ids.begin()->empty(), "the chunks do not share one id");
  findings.must(stream.done, "the stream does not end with [DONE]");
  findings.must(stream.behind_done == 0, stream.behind_done, " events behind [DONE]");
  findings.should(stream.http.header("content-type").starts_with("text/event-stream"), "content-type is ",
                  stream.http.header("content-type"));
}

void stream_order(const Session& session, Findings& findings) {
  const StreamReply stream = session.stream(kChat, session.chat(kQuestion, greedy(24)));
  if (!is_good(stream, findings)) return;
  check_chunk_heads(stream, "chat.completion.chunk", findings);
  const Json& first = first_choice(stream.chunks.front());
  const Json& role = member(first, "delta");
  findings.must(text_of(role, "role") == "assistant", "the first chunk has no role");
  findings.should(
      member(role, "content") == "" && reasoning_of(role).empty() && member(role, "tool_calls").empty(),
      "the first chunk has more than the role: ", dump_json(role));
  int64_t finishes = 0;
  bool over = false;
  for (size_t i = 0; i < stream.chunks.size(); ++i) {
    const Json& choice = first_choice(stream.chunks[i]);
    if (choice.is_null()) continue;
    findings.must(!over, "a chunk with choices behind the one with finish_reason");
    const Json& delta = member(choice, "delta");
    findings.must(delta.is_object(), "a choice without delta");
    if (i > 0)
      findings.should(!delta.contains("role") || member(delta, "role").is_null(), "the role comes again");
    if (member(choice, "finish_reason").is_null()) continue;
    ++finishes;
    over = true;
    findings.must(known_finish(text_of(choice, "finish_reason")), "finish_reason is ",
                  dump_json(member(choice, "finish_reason")));
    findings.should(text_of(delta, "content").empty() && reasoning_of(delta).empty(),
                    "finish_reason comes with the last text, not in a chunk of its own");
  }
  findings.must(finishes == 1, finishes, " chunks with finish_reason");
  findings.should(stream.usage().is_null(), "usage though it was not asked for");
}

void usage_chunk(const Session& session, Findings& findings) {
  OrderedJson more = greedy(12);
  more["stream_options"] = OrderedJson{{"include_usage", true}};
  const StreamReply stream = session.stream(kChat, session.chat(kQuestion, more));
  if (!is_good(stream, findings)) return;
  const Json& last = stream.chunks.back();
  const Json& choices = member(last, "choices");
  findings.must(choices.is_array() && choices.empty(), "the last chunk is not one with empty choices");
  check_usage(member(last, "usage"), 12, findings);
  for (size_t i = 0; i + 1 < stream.chunks.size(); ++i) {
    if (!findings.should(member(stream.chunks[i], "usage").is_null(), "usage in other chunks than the last"))
      break;
  }
  const Reply reply = session.post(kChat, session.chat(kQuestion, greedy(12)));
  for (const char* name : {"prompt_tokens", "completion_tokens"}) {
    findings.should(number_of(member(last, "usage"), name) == number_of(member(reply.json, "usage"), name),
                    name, " differs from that of the same request without stream");
  }
}

void continuous_usage(const Session& session, Findings& findings) {
  OrderedJson more = greedy(12);
  more["stream_options"] = OrderedJson{{"include_usage", true}, {"continuous_usage_stats", true}};
  const StreamReply stream = session.stream(kChat, session.chat(kQuestion, more));
  if (!is_good(stream, findings)) return;
  int64_t last = 0;
  for (const Json& chunk : stream.chunks) {
    const Json& usage = member(chunk, "usage");
    if (!findings.should(usage.is_object(), "continuous_usage_stats does not put usage into every chunk"))
      return;
    findings.must(number_of(usage, "completion_tokens") >= last, "completion_tokens goes down");
    last = number_of(usage, "completion_tokens");
  }
}

void same_text(const Session& session, Findings& findings) {
  const Reply reply = session.post(kChat, session.chat(kQuestion, greedy(60)));
  const StreamReply stream = session.stream(kChat, session.chat(kQuestion, greedy(60)));
  if (!is_good(reply, findings) || !is_good(stream, findings)) return;
  const Json& choice = first_choice(reply.json);
  const Json& message = member(choice, "message");
  const StreamReply::Choice sum = stream.choice();
  findings.must(sum.content == text_of(message, "content"), "greedy contents differ: streamed ",
                shown(sum.content), ", whole ", shown(text_of(message, "content")));
  findings.must(sum.reasoning == reasoning_of(message), "greedy reasonings differ: streamed ",
                shown(sum.reasoning), ", whole ", shown(reasoning_of(message)));
  findings.must(sum.finish == text_of(choice, "finish_reason"), "finish_reason differs: streamed ",
                sum.finish, ", whole ", text_of(choice, "finish_reason"));
  for (const Json& chunk : stream.chunks) {
    const Json& delta = member(first_choice(chunk), "delta");
    findings.must(is_valid_utf8(text_of(delta, "content")), "a chunk is no UTF-8 of its own");
  }
}

void length(const Session& session, Findings& findings) {
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const Reply reply = session.post(kChat, session.chat(kQuestion, {{"temperature", 0}, {name, 2}}));
    if (!is_good(reply, findings)) return;
    findings.must(text_of(first_choice(reply.json), "finish_reason") == "length", name,
                  " 2: finish_reason is ", dump_json(member(first_choice(reply.json), "finish_reason")));
    findings.must(number_of(member(reply.json, "usage"), "completion_tokens") == 2, name, " 2 gives ",
                  number_of(member(reply.json, "usage"), "completion_tokens"), " tokens");
  }
  const Reply both = session.post(
      kChat,
      session.chat(kQuestion, {{"max_tokens", 9}, {"max_completion_tokens", 3}, {"ignore_eos", true}}));
  findings.should(number_of(member(both.json, "usage"), "completion_tokens") == 3,
                  "max_completion_tokens does not win over max_tokens");
}

void effort(const Session& session, Findings& findings) {
  for (const char* effort : {"low", "medium", "high", "max", "none"}) {
    const Reply reply =
        session.post(kChat, session.chat(kQuestion, {{"reasoning_effort", effort}, {"max_tokens", 1}}));
    findings.must(reply.status() == 200, "reasoning_effort ", effort, " gets ", reply.said());
  }
  const Reply kwargs = session.post(
      kChat, session.chat(kQuestion, {{"chat_template_kwargs", {{"reasoning_effort", "anything"}, {"x", 1}}},
                                      {"max_tokens", 1}}));
  findings.should(kwargs.status() == 200, "chat_template_kwargs get ", kwargs.said());
  const Reply unknown =
      session.post(kChat, session.chat(kQuestion, {{"reasoning_effort", "bogus"}, {"max_tokens", 1}}));
  findings.should(unknown.status() == 400, "an unknown reasoning_effort gets ", unknown.said());
}

void messages(const Session& session, Findings& findings) {
  const auto ask = [&](const char* what, const OrderedJson& list) {
    const Reply reply =
        session.post(kChat, {{"model", session.model()}, {"messages", list}, {"max_tokens", 1}});
    findings.must(reply.status() == 200, what, " gets ", reply.said());
  };
  ask("a list of text parts",
      {{{"role", "user"},
        {"content", {{{"type", "text"}, {"text", "Hi "}}, {{"type", "text"}, {"text", "there"}}}}}});
  ask("a system message",
      {{{"role", "system"}, {"content", "Be short."}}, {{"role", "user"}, {"content", "Hi"}}});
  ask("a developer message",
      {{{"role", "developer"}, {"content", "Be short."}}, {{"role", "user"}, {"content", "Hi"}}});
  ask("reasoning of an earlier turn", {{{"role", "user"}, {"content", "Hi"}},
                                       {{"role", "assistant"}, {"content", "Ho"}, {"reasoning", "Short."}},
                                       {{"role", "user"}, {"content", "Again"}}});
  ask("reasoning_content of an earlier turn",
      {{{"role", "user"}, {"content", "Hi"}},
       {{"role", "assistant"}, {"content", "Ho"}, {"reasoning_content", "Short."}},
       {{"role", "user"}, {"content", "Again"}}});
  ask("a turn with null content", {{{"role", "user"}, {"content", "Hi"}},
                                   {{"role", "assistant"}, {"content", nullptr}},
                                   {{"role", "user"}, {"content", "Again"}}});
}

void optional_fields(const Session& session, Findings& findings) {
  OrderedJson body = session.chat("Hi", {{"max_tokens", 1}});
  for (const char* name :
       {"temperature", "top_p", "n", "stop", "seed", "tools", "tool_choice", "logit_bias", "response_format",
        "stream_options", "user", "top_logprobs", "presence_penalty", "frequency_penalty"}) {
    body[name] = nullptr;
  }
  const Reply nulls = session.post(kChat, body);
  findings.must(nulls.status() == 200, "null in optional fields gets ", nulls.said());
  const Reply unknown =
      session.post(kChat, session.chat("Hi", {{"max_tokens", 1}, {"no_such_field", {1, 2}}, {"user", "u"}}));
  findings.should(unknown.status() == 200, "an unknown field gets ", unknown.said());
}

void unicode(const Session& session, Findings& findings) {
  const std::string text =
      "Grüße, 你好, שלום, e\u0301, 👩‍👩‍👧, \U0001F3F3\uFE0F‍🌈, \u0001\u2028";
  const StreamReply stream =
      session.stream(kChat, session.chat(text, {{"max_tokens", 24}, {"temperature", 1}, {"seed", 5}}));
  if (!is_good(stream, findings)) return;
  for (const Json& chunk : stream.chunks) {
    const std::string piece = text_of(member(first_choice(chunk), "delta"), "content");
    findings.should(piece.find(kReplacementUtf8) == std::string::npos,
                    "a character is cut between two chunks");
  }
}

void choices(const Session& session, Findings& findings) {
  const OrderedJson more{{"n", 2}, {"max_tokens", 6}, {"temperature", 1}, {"seed", 3}};
  const Reply reply = session.post(kChat, session.chat(kQuestion, more));
  if (!is_good(reply, findings)) return;
  const Json& list = member(reply.json, "choices");
  std::set<int64_t> indexes;
  for (const Json& choice : list) indexes.insert(number_of(choice, "index"));
  findings.must(list.size() == 2 && indexes == std::set<int64_t>{0, 1}, "n 2 gives ", list.size(),
                " choices");
  const int64_t tokens = number_of(member(reply.json, "usage"), "completion_tokens");
  findings.must(tokens > 2 && tokens <= 12, "usage of two choices of up to 6 tokens: ", tokens);
  const StreamReply stream = session.stream(kChat, session.chat(kQuestion, more));
  if (!is_good(stream, findings)) return;
  for (const int64_t index : {0, 1}) {
    const StreamReply::Choice sum = stream.choice(index);
    findings.must(sum.chunks > 1 && !sum.finish.empty(), "the stream of choice ", index,
                  " has no beginning or no end");
  }
}

}  // namespace

void add_chat_checks(std::vector<DoctorCheck>& checks) {
  checks.push_back({"chat: whole answer", whole});
  checks.push_back({"chat: stream order", stream_order});
  checks.push_back({"chat: usage chunk", usage_chunk});
  checks.push_back({"chat: continuous usage", continuous_usage});
  checks.push_back({"chat: streamed equals whole", same_text});
  checks.push_back({"chat: max_tokens", length});
  checks.push_back({"chat: reasoning", reasoning});
  checks.push_back({"chat: reasoning_effort", effort});
  checks.push_back({"chat: kinds of messages", messages});
  checks.push_back({"chat: null and unknown fields", optional_fields});
  checks.push_back({"chat: unicode", unicode});
  checks.push_back({"chat: n", choices});
}

}  // namespace glint::bench
