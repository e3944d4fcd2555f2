// What changes the tokens: stop, seed, logit_bias, logprobs, minimum and maximum.
#include <algorithm>
#include <cmath>

#include "bench/doctor/session.h"

namespace glint::bench {

namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kBegin = "Once upon a time there was";

OrderedJson greedy(int64_t max_tokens) {
  return {{"temperature", 0}, {"max_tokens", max_tokens}, {"ignore_eos", true}};
}

std::string completion_text(const Reply& reply) {
  return text_of(first_choice(reply.json), "text");
}

/// A short piece of the text, whole characters, that does not stand in it earlier: behind its first third, or
/// where a text that repeats itself has one.
std::string piece_of(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t at = (text.size() / 3 + i) % text.size();
    const std::string piece = text.substr(at, 3);
    if (piece.size() < 3) continue;
    const bool plain =
        std::all_of(piece.begin(), piece.end(), [](unsigned char c) { return c >= ' ' && c < 0x7f; });
    if (plain && text.find(piece) == at && at > 0) return piece;
  }
  return "";
}

void stop(const Session& session, Findings& findings) {
  const Reply free = session.post(kCompletions, session.completion(kBegin, greedy(24)));
  if (!is_good(free, findings)) return;
  const std::string text = completion_text(free);
  const std::string piece = piece_of(text);
  if (piece.empty()) return findings.skip("no piece of ", shown(text), " to stop at");
  const std::string expected = text.substr(0, text.find(piece));
  OrderedJson more = greedy(24);
  more["stop"] = OrderedJson::array({"never there at all", piece});
  const Reply cut = session.post(kCompletions, session.completion(kBegin, more));
  if (!is_good(cut, findings)) return;
  findings.must(completion_text(cut) == expected, "stop ", shown(piece), " gives ",
                shown(completion_text(cut)), ", not ", shown(expected));
  findings.must(text_of(first_choice(cut.json), "finish_reason") == "stop", "finish_reason is not stop");
  findings.should(text_of(first_choice(cut.json), "stop_reason") == piece, "stop_reason is ",
                  dump_json(member(first_choice(cut.json), "stop_reason")), ", not the stop string");
  const StreamReply stream = session.stream(kCompletions, session.completion(kBegin, more));
  if (is_good(stream, findings)) {
    findings.must(stream.choice().text == expected, "streamed: ", shown(stream.choice().text), ", not ",
                  shown(expected));
    findings.must(stream.choice().finish == "stop", "streamed: finish_reason is ", stream.choice().finish);
  }
  more["include_stop_str_in_output"] = true;
  more["stop"] = piece;  // a text alone
  const Reply with = session.post(kCompletions, session.completion(kBegin, more));
  findings.should(completion_text(with) == expected + piece, "include_stop_str_in_output gives ",
                  shown(completion_text(with)));
}

void seed(const Session& session, Findings& findings) {
  const OrderedJson more{{"temperature", 1}, {"seed", 11}, {"max_tokens", 16}, {"ignore_eos", true}};
  const Reply first = session.post(kCompletions, session.completion(kBegin, more));
  const Reply second = session.post(kCompletions, session.completion(kBegin, more));
  if (!is_good(first, findings) || !is_good(second, findings)) return;
  findings.should(completion_text(first) == completion_text(second), "the same seed gives ",
                  shown(completion_text(first)), " and ", shown(completion_text(second)));
  const Reply once = session.post(kCompletions, session.completion(kBegin, greedy(16)));
  const Reply again = session.post(kCompletions, session.completion(kBegin, greedy(16)));
  findings.should(completion_text(once) == completion_text(again), "temperature 0 gives two texts");
}

void logit_bias(const Session& session, Findings& findings) {
  OrderedJson more{{"temperature", 0}, {"max_tokens", 4}, {"logprobs", 1}, {"logit_bias", {{"100", 100}}}};
  const Reply reply = session.post(kCompletions, session.completion(kBegin, more));
  if (!is_good(reply, findings)) return;
  const Json& tokens = member(member(first_choice(reply.json), "logprobs"), "tokens");
  if (!findings.must(tokens.is_array() && tokens.size() == 4, "no four tokens in the logprobs")) return;
  const bool same =
      std::all_of(tokens.begin(), tokens.end(), [&](const Json& token) { return token == tokens[0]; });
  findings.must(same, "a bias of 100 for one id does not force it: ", dump_json(tokens));
  const Reply plain = session.post(
      kCompletions, session.completion(kBegin, {{"temperature", 0}, {"max_tokens", 4}, {"logprobs", 1}}));
  findings.should(member(member(first_choice(plain.json), "logprobs"), "tokens") != tokens,
                  "the bias changes nothing");
}

void chat_logprobs(const Session& session, Findings& findings) {
  const OrderedJson more{{"temperature", 0}, {"max_tokens", 8}, {"logprobs", true}, {"top_logprobs", 3}};
  const Reply reply = session.post(kChat, session.chat("What is 2 + 3?", more));
  if (!is_good(reply, findings)) return;
  const Json& list = member(member(first_choice(reply.json), "logprobs"), "content");
  if (!findings.must(list.is_array(), "no logprobs.content")) return;
  const int64_t tokens = number_of(member(reply.json, "usage"), "completion_tokens");
  findings.must(static_cast<int64_t>(list.size()) == tokens, list.size(), " logprobs for ", tokens,
                " tokens");
  for (const Json& entry : list) {
    const Json& logprob = member(entry, "logprob");
    const Json& top = member(entry, "top_logprobs");
    if (!findings.must(logprob.is_number() && logprob.get<double>() <= 0,
                       "a logprob that is no number up to 0"))
      return;
    if (!findings.must(top.is_array() && top.size() == 3, "not three top_logprobs")) return;
    findings.must(member(entry, "token") == member(top[0], "token"),
                  "a greedy token that is not the most likely one");
    findings.must(member(top[0], "logprob").get<double>() >= member(top[1], "logprob").get<double>(),
                  "top_logprobs are not sorted");
    findings.should(member(entry, "bytes").is_array(), "no bytes");
  }
  const StreamReply stream = session.stream(kChat, session.chat("What is 2 + 3?", more));
  if (!is_good(stream, findings)) return;
  size_t streamed = 0;
  for (const Json& chunk : stream.chunks)
    streamed += member(member(first_choice(chunk), "logprobs"), "content").size();
  findings.must(streamed == list.size(), streamed, " logprobs in the stream, ", list.size(),
                " in the whole answer");
}

void completion_logprobs(const Session& session, Findings& findings) {
  OrderedJson more = greedy(5);
  more["logprobs"] = 2;
  const Reply reply = session.post(kCompletions, session.completion(kBegin, more));
  if (!is_good(reply, findings)) return;
  const Json& logprobs = member(first_choice(reply.json), "logprobs");
  std::string joined;
  for (const Json& token : member(logprobs, "tokens")) joined += token.get<std::string>();
  for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    findings.must(member(logprobs, name).size() == 5, name, " has ", member(logprobs, name).size(),
                  " entries for 5 tokens");
  }
  findings.should(joined == completion_text(reply), "the tokens joined are ", shown(joined), ", the text is ",
                  shown(completion_text(reply)));
}

void lengths(const Session& session, Findings& findings) {
  const Reply whole = session.post(kCompletions, session.completion(kBegin, greedy(40)));
  if (!is_good(whole, findings)) return;
  findings.must(number_of(member(whole.json, "usage"), "completion_tokens") == 40,
                "ignore_eos with max_tokens 40 gives ",
                number_of(member(whole.json, "usage"), "completion_tokens"), " tokens");
  const Reply least = session.post(
      kChat, session.chat("Hello", {{"min_tokens", 12}, {"max_tokens", 12}, {"temperature", 0}}));
  findings.should(number_of(member(least.json, "usage"), "completion_tokens") == 12, "min_tokens 12 gives ",
                  number_of(member(least.json, "usage"), "completion_tokens"), " tokens (", least.status(),
                  ")");
}

void accepted_fields(const Session& session, Findings& findings) {
  const OrderedJson fields = OrderedJson::parse(
      R"({"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": -0.5,
          "stop_token_ids": [5], "bad_words": ["zzz"], "allowed_token_ids": [100, 101], "skip_special_tokens": false,
          "truncate_prompt_tokens": 4, "return_token_ids": true, "priority": 1, "cache_salt": "salt"})");
  for (const auto& [name, value] : fields.items()) {
    const Reply reply =
        session.post(kCompletions, session.completion(kBegin, {{name, value}, {"max_tokens", 2}}));
    findings.must(reply.status() != 0 && reply.status() < 500, name, " gets ", reply.said());
    if (reply.status() != 200) findings.missing(name, " (", reply.said(), ")");
  }
}

}  // namespace

void add_sampling_checks(std::vector<DoctorCheck>& checks) {
  checks.push_back({"sampling: stop", stop});
  checks.push_back({"sampling: seed and temperature 0", seed});
  checks.push_back({"sampling: logit_bias", logit_bias});
  checks.push_back({"sampling: logprobs of chat", chat_logprobs});
  checks.push_back({"sampling: logprobs of completions", completion_logprobs});
  checks.push_back({"sampling: ignore_eos and min_tokens", lengths});
  checks.push_back({"sampling: vLLM's fields", accepted_fields});
}

}  // namespace glint::bench
