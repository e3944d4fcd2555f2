// Structured output and the tokenizer's endpoints.
#include <algorithm>

#include "bench/doctor/session.h"

namespace glint::bench {

namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr int64_t kTokens = 400;

/// The content of an answer that came to its end; "" with a skip if max_tokens cut it.
std::string content_of(const Session& session, const char* question, const OrderedJson& format,
                       Findings& findings) {
  OrderedJson more{{"temperature", 0}, {"max_tokens", kTokens}, {"reasoning_effort", "low"}};
  more.update(format);
  const Reply reply = session.post(kChat, session.chat(question, more));
  if (!is_good(reply, findings)) return "";
  const Json& choice = first_choice(reply.json);
  if (text_of(choice, "finish_reason") == "length") {
    findings.skip("max_tokens ", kTokens, " cut the answer");
    return "";
  }
  const std::string content = text_of(member(choice, "message"), "content");
  findings.must(!content.empty(), "no content");
  return content;
}

void json_object(const Session& session, Findings& findings) {
  const std::string text = content_of(session, "Give me any JSON object.",
                                      {{"response_format", {{"type", "json_object"}}}}, findings);
  if (!text.empty())
    findings.must(Json::accept(text) && Json::parse(text).is_object(), "no JSON object: ", shown(text));
}

void json_schema(const Session& session, Findings& findings) {
  const OrderedJson schema =
      OrderedJson::parse(R"({"type": "object", "additionalProperties": false, "required": ["name", "age"],
      "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 150}}})");
  const OrderedJson format{{"response_format",
                            {{"type", "json_schema"},
                             {"json_schema", {{"name", "person"}, {"strict", true}, {"schema", schema}}}}}};
  const std::string text = content_of(session, "Name: Ada, age: 36. As JSON.", format, findings);
  if (text.empty()) return;
  if (!findings.must(Json::accept(text), "no JSON: ", shown(text))) return;
  const Json person = Json::parse(text);
  findings.must(person.is_object() && person.size() == 2 && member(person, "name").is_string() &&
                    member(person, "age").is_number_integer(),
                "the schema is not kept: ", shown(text));
}

void choice(const Session& session, Findings& findings) {
  const OrderedJson format{{"structured_outputs", {{"choice", {"red", "green"}}}}};
  const std::string text = content_of(session, "Red or green?", format, findings);
  if (!text.empty()) findings.must(text == "red" || text == "green", "another text: ", shown(text));
}

void regex(const Session& session, Findings& findings) {
  const OrderedJson format{{"structured_outputs", {{"regex", "[0-9]{3}-[a-c]{2}"}}}};
  const std::string text = content_of(session, "Any code.", format, findings);
  if (text.empty()) return;
  const bool good =
      text.size() == 6 &&
      std::all_of(text.begin(), text.begin() + 3, [](char c) { return c >= '0' && c <= '9'; }) &&
      text[3] == '-' &&
      std::all_of(text.begin() + 4, text.end(), [](char c) { return c >= 'a' && c <= 'c'; });
  findings.must(good, "the expression is not kept: ", shown(text));
}

void tokenize(const Session& session, Findings& findings) {
  const std::string text = "Grüße, 你好 and 12345 <think> x";
  const Reply reply = session.post(
      "/tokenize", {{"model", session.model()}, {"prompt", text}, {"add_special_tokens", false}});
  if (!is_good(reply, findings)) return;
  const Json& tokens = member(reply.json, "tokens");
  if (!findings.must(tokens.is_array() && !tokens.empty(), "no tokens")) return;
  findings.must(number_of(reply.json, "count") == static_cast<int64_t>(tokens.size()),
                "count is not the number of tokens");
  findings.should(number_of(reply.json, "max_model_len") > 0, "no max_model_len");
  const Reply back = session.post(
      "/detokenize", {{"model", session.model()}, {"tokens", OrderedJson::parse(tokens.dump())}});
  if (!is_good(back, findings)) return;
  findings.must(text_of(back.json, "prompt") == text, "detokenized: ", shown(text_of(back.json, "prompt")));
}

void tokenize_chat(const Session& session, Findings& findings) {
  OrderedJson body = session.chat("What is 2 + 3?");
  const Reply reply = session.post("/tokenize", body);
  if (!is_good(reply, findings)) return;
  body["max_tokens"] = 1;
  const Reply chat = session.post(kChat, body);
  findings.must(number_of(reply.json, "count") == number_of(member(chat.json, "usage"), "prompt_tokens"),
                "the messages have ", number_of(reply.json, "count"), " tokens here and ",
                number_of(member(chat.json, "usage"), "prompt_tokens"), " in the answer's usage");
}

}  // namespace

void add_structured_checks(std::vector<DoctorCheck>& checks) {
  checks.push_back({"structured: json_object", json_object});
  checks.push_back({"structured: json_schema", json_schema});
  checks.push_back({"structured: choice", choice});
  checks.push_back({"structured: regex", regex});
  checks.push_back({"tokenize: there and back", tokenize});
  checks.push_back({"tokenize: messages", tokenize_chat});
}

}  // namespace glint::bench
