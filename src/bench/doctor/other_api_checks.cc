// /v1/responses and Anthropic's /v1/messages.
#include <set>

#include "bench/doctor/session.h"

namespace glint::bench {

namespace {

constexpr const char* kResponses = "/v1/responses";
constexpr const char* kMessages = "/v1/messages";

void responses(const Session& session, Findings& findings) {
  const Reply reply = session.post(kResponses, {{"model", session.model()},
                                                {"input", "What is 2 + 3?"},
                                                {"max_output_tokens", 200},
                                                {"temperature", 0}});
  if (!is_good(reply, findings)) return;
  findings.must(text_of(reply.json, "object") == "response", "object is ",
                dump_json(member(reply.json, "object")));
  const std::string status = text_of(reply.json, "status");
  findings.must(status == "completed" || status == "incomplete", "status is ", status);
  findings.must(member(reply.json, "output").is_array(), "output is no list");
  for (const Json& item : member(reply.json, "output")) {
    const std::string type = text_of(item, "type");
    findings.must(type == "reasoning" || type == "message" || type == "function_call",
                  "an output item of type ", shown(type));
    findings.must(!text_of(item, "id").empty(), "an output item without id");
  }
  const Json& usage = member(reply.json, "usage");
  findings.must(number_of(usage, "total_tokens") ==
                    number_of(usage, "input_tokens") + number_of(usage, "output_tokens"),
                "usage does not add up");
}

void responses_stream(const Session& session, Findings& findings) {
  const StreamReply stream = session.stream(kResponses, {{"model", session.model()},
                                                         {"input", "What is 2 + 3?"},
                                                         {"max_output_tokens", 60},
                                                         {"temperature", 0}});
  if (!is_good(stream, findings)) return;
  findings.must(text_of(stream.chunks.front(), "type") == "response.created", "the first event is ",
                text_of(stream.chunks.front(), "type"));
  const std::string last = text_of(stream.chunks.back(), "type");
  findings.must(last == "response.completed" || last == "response.incomplete", "the last event is ", last);
  int64_t expected = number_of(stream.chunks.front(), "sequence_number");
  for (const Json& event : stream.chunks) {
    if (!findings.must(number_of(event, "sequence_number") == expected++,
                       "sequence_number is not counted up"))
      break;
  }
}

OrderedJson message(const Session& session, int64_t max_tokens) {
  return {{"model", session.model()},
          {"max_tokens", max_tokens},
          {"temperature", 0},
          {"messages", {{{"role", "user"}, {"content", "What is 2 + 3?"}}}}};
}

void messages(const Session& session, Findings& findings) {
  const Reply reply = session.post(kMessages, message(session, 200));
  if (!is_good(reply, findings)) return;
  findings.must(text_of(reply.json, "type") == "message" && text_of(reply.json, "role") == "assistant",
                "no message of the assistant");
  const std::string stop = text_of(reply.json, "stop_reason");
  findings.must(stop == "end_turn" || stop == "max_tokens" || stop == "stop_sequence" || stop == "tool_use",
                "stop_reason is ", shown(stop));
  for (const Json& block : member(reply.json, "content")) {
    const std::string type = text_of(block, "type");
    findings.must(type == "thinking" || type == "text" || type == "tool_use", "a block of type ",
                  shown(type));
  }
  findings.must(number_of(member(reply.json, "usage"), "input_tokens") > 0 &&
                    number_of(member(reply.json, "usage"), "output_tokens") > 0,
                "no usage");
  const Reply wrong =
      session.post(kMessages, {{"model", session.model()}, {"messages", 5}, {"max_tokens", 1}});
  findings.must(wrong.status() == 400, "a wrong request gets ", wrong.said());
  findings.should(text_of(wrong.json, "type") == "error",
                  "an error that is not in Anthropic's form: ", shown(wrong.http.body));
}

/// One open block at a time; deltas only to it.
void messages_stream(const Session& session, Findings& findings) {
  const StreamReply stream = session.stream(kMessages, message(session, 60));
  if (!is_good(stream, findings)) return;
  findings.must(text_of(stream.chunks.front(), "type") == "message_start", "the first event is ",
                text_of(stream.chunks.front(), "type"));
  findings.must(text_of(stream.chunks.back(), "type") == "message_stop", "the last event is ",
                text_of(stream.chunks.back(), "type"));
  int64_t open = -1;
  bool stopped = false;
  for (const Json& event : stream.chunks) {
    const std::string type = text_of(event, "type");
    const int64_t index = number_of(event, "index");
    if (type == "content_block_start") {
      findings.must(open == -1, "a block starts inside another one");
      open = index;
    } else if (type == "content_block_delta") {
      findings.must(open == index && open != -1, "a delta to a block that is not open");
    } else if (type == "content_block_stop") {
      findings.must(open == index, "a block stops that is not open");
      open = -1;
    } else if (type == "message_delta") {
      stopped = !text_of(member(event, "delta"), "stop_reason").empty();
    }
  }
  findings.must(stopped, "no message_delta with stop_reason");
}

void count_tokens(const Session& session, Findings& findings) {
  OrderedJson body = message(session, 1);
  const Reply reply = session.post(kMessages, body);
  const Reply count = session.post("/v1/messages/count_tokens", body);
  if (!is_good(count, findings) || !is_good(reply, findings)) return;
  findings.must(
      number_of(count.json, "input_tokens") == number_of(member(reply.json, "usage"), "input_tokens"),
      "count_tokens says ", number_of(count.json, "input_tokens"), ", usage ",
      number_of(member(reply.json, "usage"), "input_tokens"));
}

}  // namespace

void add_other_api_checks(std::vector<DoctorCheck>& checks) {
  checks.push_back({"responses: whole answer", responses});
  checks.push_back({"responses: stream", responses_stream});
  checks.push_back({"messages: whole answer", messages});
  checks.push_back({"messages: stream", messages_stream});
  checks.push_back({"messages: count_tokens", count_tokens});
}

}  // namespace glint::bench
