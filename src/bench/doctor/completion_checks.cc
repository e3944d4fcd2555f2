// /v1/completions.
#include <set>

#include "bench/doctor/session.h"

namespace glint::bench {

namespace {

constexpr const char* kPath = "/v1/completions";
constexpr const char* kBegin = "The quick brown fox";

std::string completion_text(const Reply& reply) {
  return text_of(first_choice(reply.json), "text");
}

void whole(const Session& session, Findings& findings) {
  const Reply reply =
      session.post(kPath, session.completion(kBegin, {{"temperature", 0}, {"ignore_eos", true}}));
  if (!is_good(reply, findings)) return;
  findings.must(text_of(reply.json, "object") == "text_completion", "object is ",
                dump_json(member(reply.json, "object")));
  findings.should(text_of(reply.json, "id").starts_with("cmpl-"), "the id is ",
                  shown(text_of(reply.json, "id")));
  findings.must(member(first_choice(reply.json), "text").is_string(), "no text");
  findings.must(text_of(first_choice(reply.json), "finish_reason") == "length", "finish_reason is ",
                dump_json(member(first_choice(reply.json), "finish_reason")));
  findings.should(number_of(member(reply.json, "usage"), "completion_tokens") == 16,
                  "without max_tokens there are ",
                  number_of(member(reply.json, "usage"), "completion_tokens"), " tokens, not 16");
}

void stream(const Session& session, Findings& findings) {
  const OrderedJson more{{"temperature", 0},
                         {"max_tokens", 12},
                         {"ignore_eos", true},
                         {"stream_options", {{"include_usage", true}}}};
  const StreamReply stream = session.stream(kPath, session.completion(kBegin, more));
  OrderedJson plain = more;
  plain.erase("stream_options");
  const Reply reply = session.post(kPath, session.completion(kBegin, plain));
  if (!is_good(stream, findings) || !is_good(reply, findings)) return;
  const StreamReply::Choice sum = stream.choice();
  findings.must(sum.text == completion_text(reply), "greedy texts differ: streamed ", shown(sum.text),
                ", whole ", shown(completion_text(reply)));
  findings.must(sum.finish == "length", "finish_reason is ", sum.finish);
  findings.must(stream.done && stream.behind_done == 0, "the stream does not end with [DONE]");
  findings.must(
      member(stream.chunks.back(), "choices").empty() && member(stream.chunks.back(), "usage").is_object(),
      "the last chunk is not the usage");
  findings.must(number_of(stream.usage(), "completion_tokens") == 12, "usage tells ",
                number_of(stream.usage(), "completion_tokens"), " tokens of 12");
  for (const Json& chunk : stream.chunks) {
    if (!findings.must(text_of(chunk, "object") == "text_completion", "a chunk's object is ",
                       dump_json(member(chunk, "object"))))
      break;
  }
}

void prompts(const Session& session, Findings& findings) {
  const Reply reply = session.post(
      kPath, session.completion({"One two", "Three four"}, {{"max_tokens", 2}, {"temperature", 0}}));
  if (!is_good(reply, findings)) return;
  std::set<int64_t> indexes;
  for (const Json& choice : member(reply.json, "choices")) indexes.insert(number_of(choice, "index"));
  findings.must(indexes == std::set<int64_t>{0, 1}, "two prompts do not give choices 0 and 1");
  const Reply single =
      session.post(kPath, session.completion("Three four", {{"max_tokens", 2}, {"temperature", 0}}));
  for (const Json& choice : member(reply.json, "choices")) {
    if (number_of(choice, "index") != 1) continue;
    findings.should(text_of(choice, "text") == completion_text(single),
                    "the second prompt's answer is another one when it is sent alone");
  }
  const Reply ids = session.post(kPath, session.completion({100, 101, 102}, {{"max_tokens", 2}}));
  findings.must(ids.status() == 200, "a prompt of ids gets ", ids.said());
  const Reply lists = session.post(
      kPath,
      session.completion(OrderedJson::array({OrderedJson::array({100, 101}), OrderedJson::array({102})}),
                         {{"max_tokens", 1}}));
  findings.must(lists.status() == 200 && member(lists.json, "choices").size() == 2,
                "a list of lists of ids gets ", lists.said());
}

void echo(const Session& session, Findings& findings) {
  const std::string prompt = "Grüße, 你好 and e\u0301 👩‍👩‍👧";
  const Reply reply = session.post(
      kPath, session.completion(prompt, {{"echo", true}, {"max_tokens", 1}, {"temperature", 0}}));
  if (!is_good(reply, findings)) return;
  findings.must(completion_text(reply).starts_with(prompt), "echo gives ", shown(completion_text(reply)));
}

void scoring(const Session& session, Findings& findings) {
  const Reply reply = session.post(
      kPath,
      session.completion(kBegin, {{"echo", true}, {"max_tokens", 0}, {"logprobs", 1}, {"temperature", 0}}));
  if (!is_good(reply, findings)) return;
  const Json& logprobs = member(first_choice(reply.json), "logprobs");
  const Json& values = member(logprobs, "token_logprobs");
  findings.must(completion_text(reply) == kBegin, "the text is ", shown(completion_text(reply)),
                ", not the prompt");
  if (!findings.must(values.is_array() && !values.empty(), "no token_logprobs")) return;
  findings.should(values.front().is_null(), "the first token's logprob is not null");
  for (size_t i = 1; i < values.size(); ++i)
    findings.must(values[i].is_number() && values[i].get<double>() <= 0,
                  "a logprob that is no number up to 0");
  findings.must(
      static_cast<int64_t>(values.size()) == number_of(member(reply.json, "usage"), "prompt_tokens"),
      values.size(), " logprobs for ", number_of(member(reply.json, "usage"), "prompt_tokens"), " tokens");
}

void suffix(const Session& session, Findings& findings) {
  const Reply reply = session.post(kPath, session.completion(kBegin, {{"suffix", "end"}, {"max_tokens", 1}}));
  findings.should(reply.status() == 400, "suffix gets ", reply.said(), ", not 400");
}

}  // namespace

void add_completion_checks(std::vector<DoctorCheck>& checks) {
  checks.push_back({"completions: whole answer", whole});
  checks.push_back({"completions: stream", stream});
  checks.push_back({"completions: kinds of prompts", prompts});
  checks.push_back({"completions: echo", echo});
  checks.push_back({"completions: scoring a prompt", scoring});
  checks.push_back({"completions: suffix", suffix});
}

}  // namespace glint::bench
