#include "bench/doctor/session.h"

#include <algorithm>

#include "base/error.h"

namespace glint::bench {

namespace {

const Json kNull;

Url base_of(const DoctorOptions& options) {
  Url url = Url::parse(options.url);
  // The base URL of OpenAI's clients ends in /v1; the other paths stand beside it.
  if (url.prefix.ends_with("/v1")) url.prefix.resize(url.prefix.size() - 3);
  return url;
}

Json parsed(const std::string& body) {
  try {
    return parse_json(body, "answer");
  } catch (const Error&) {
    return {};
  }
}

bool says_unsupported(const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* words :
       {"not supported", "unsupported", "not implemented", "not yet", "cannot be done here"}) {
    if (lower.find(words) != std::string::npos) return true;
  }
  return false;
}

void append(std::string& to, const Json& from, std::string_view name) {
  to += text_of(from, name);
}

}  // namespace

Session::Session(const DoctorOptions& options)
    : target_(base_of(options), options.insecure), api_key_(options.api_key), timeout_s_(options.timeout_s) {
  const Reply models = get("/v1/models");
  if (models.status() == 0)
    fail(ErrorKind::io, models.http.error, " (is ", target_.url().text(), " the server's address?)");
  choose_model(options.model);
  const Json& list = member(models.json, "data");
  for (const Json& entry : list) {
    if (model_.empty()) model_ = text_of(entry, "id");
    if (text_of(entry, "id") == model_)
      max_model_len_ = std::max<int64_t>(0, number_of(entry, "max_model_len"));
  }
  if (model_.empty()) {
    fail(ErrorKind::io, target_.url().text(), "/v1/models lists no model (", models.said(),
         "): name one with --model");
  }
}

void Session::choose_model(const std::string& wanted) {
  model_ = wanted;
}

HttpHeaders Session::with_key(HttpHeaders headers) const {
  const bool given = std::any_of(headers.begin(), headers.end(),
                                 [](const auto& one) { return one.first == "Authorization"; });
  if (!api_key_.empty() && !given) headers.emplace_back("Authorization", "Bearer " + api_key_);
  headers.emplace_back("Connection", "close");
  return headers;
}

Reply Session::get(const std::string& path, const HttpHeaders& headers) const {
  return send("GET", path, headers, "");
}

Reply Session::send(const std::string& method, const std::string& path, const HttpHeaders& headers,
                    const std::string& body) const {
  HttpAsk ask;
  ask.method = method;
  ask.path = path;
  ask.headers = with_key(headers);
  ask.body = body;
  ask.timeout_s = timeout_s_;
  Reply reply;
  reply.http = fetch(target_, ask);
  reply.json = parsed(reply.http.body);
  return reply;
}

Reply Session::post(const std::string& path, const OrderedJson& body, const HttpHeaders& headers) const {
  return send("POST", path, headers, dump_json(body));
}

StreamReply Session::stream(const std::string& path, OrderedJson body) const {
  body["stream"] = true;
  HttpAsk ask;
  ask.method = "POST";
  ask.path = path;
  ask.headers = with_key({});
  ask.body = dump_json(body);
  ask.timeout_s = timeout_s_;
  StreamReply reply;
  reply.http = fetch(target_, ask);
  if (reply.http.status != 200) return reply;
  SseReader reader;
  reader.feed(reply.http.body, [&](std::string_view data) {
    if (reply.done) ++reply.behind_done;
    if (data == "[DONE]") {
      reply.done = true;
      return;
    }
    const std::string event(data);
    Json chunk = parsed(event);
    if (chunk.is_null()) reply.broken = event;
    reply.chunks.push_back(std::move(chunk));
  });
  return reply;
}

bool Session::break_stream(const std::string& path, OrderedJson body) const {
  body["stream"] = true;
  HttpAsk ask;
  ask.method = "POST";
  ask.path = path;
  ask.headers = with_key({});
  ask.body = dump_json(body);
  ask.timeout_s = timeout_s_;
  ask.on_body = [](std::string_view piece, double /*at_s*/) {
    return piece.find("data:") == std::string_view::npos;
  };
  return fetch(target_, ask).broken_off;
}

OrderedJson Session::chat(std::string_view text, const OrderedJson& more) const {
  OrderedJson body{{"model", model_},
                   {"messages", OrderedJson::array({OrderedJson{{"role", "user"}, {"content", text}}})}};
  body.update(more);
  return body;
}

OrderedJson Session::completion(const OrderedJson& prompt, const OrderedJson& more) const {
  OrderedJson body{{"model", model_}, {"prompt", prompt}};
  body.update(more);
  return body;
}

StreamReply::Choice StreamReply::choice(int64_t index) const {
  Choice sum;
  for (const Json& chunk : chunks) {
    for (const Json& choice : member(chunk, "choices")) {
      if (number_of(choice, "index") != index) continue;
      ++sum.chunks;
      append(sum.text, choice, "text");
      const Json& delta = member(choice, "delta");
      append(sum.content, delta, "content");
      sum.reasoning += reasoning_of(delta);
      for (const Json& call : member(delta, "tool_calls")) {
        const auto at = static_cast<size_t>(std::clamp<int64_t>(number_of(call, "index"), 0, 100));
        if (sum.calls.size() <= at)
          sum.calls.resize(at + 1, Json{{"id", ""}, {"name", ""}, {"arguments", ""}});
        const auto add = [&](const char* name, const std::string& more) {
          sum.calls[at][name] = sum.calls[at][name].get<std::string>() + more;
        };
        add("id", text_of(call, "id"));
        add("name", text_of(member(call, "function"), "name"));
        add("arguments", text_of(member(call, "function"), "arguments"));
      }
      if (const std::string finish = text_of(choice, "finish_reason"); !finish.empty()) {
        sum.finish = finish;
        sum.stop_reason = member(choice, "stop_reason");
      }
    }
  }
  return sum;
}

Json StreamReply::usage() const {
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    if (member(*chunk, "usage").is_object()) return member(*chunk, "usage");
  }
  return {};
}

bool is_missing(const Reply& reply, Findings& findings) {
  const int status = reply.status();
  const bool unsupported = status == 400 && says_unsupported(error_message(reply.http.body));
  if (status != 404 && status != 405 && status != 501 && !unsupported) return false;
  findings.missing(reply.said());
  return true;
}

bool is_good(const Reply& reply, Findings& findings) {
  if (is_missing(reply, findings)) return false;
  return findings.must(reply.status() == 200, "answered ", reply.said()) &&
         findings.must(reply.json.is_object(), "the body is no JSON object: ", shown(reply.http.body));
}

bool is_good(const StreamReply& reply, Findings& findings) {
  Reply whole;
  whole.http = reply.http;
  if (is_missing(whole, findings)) return false;
  if (!findings.must(reply.http.status == 200, "answered ", whole.said())) return false;
  if (!findings.must(reply.http.error.empty(), "the stream broke: ", reply.http.error)) return false;
  if (!findings.must(reply.broken.empty(), "an event that is no JSON: ", shown(reply.broken))) return false;
  return findings.must(!reply.chunks.empty(), "no event in the stream: ", shown(reply.http.body));
}

const Json& member(const Json& value, std::string_view name) {
  if (!value.is_object()) return kNull;
  const auto found = value.find(name);
  return found == value.end() ? kNull : *found;
}

std::string text_of(const Json& value, std::string_view name) {
  const Json& found = member(value, name);
  return found.is_string() ? found.get<std::string>() : std::string();
}

int64_t number_of(const Json& value, std::string_view name) {
  const Json& found = member(value, name);
  return found.is_number() ? found.get<int64_t>() : -1;
}

const Json& first_choice(const Json& answer) {
  const Json& choices = member(answer, "choices");
  return choices.is_array() && !choices.empty() ? choices.front() : kNull;
}

std::string reasoning_of(const Json& message) {
  const std::string text = text_of(message, "reasoning");
  return text.empty() ? text_of(message, "reasoning_content") : text;
}

std::string shown(std::string_view text) {
  constexpr size_t kMax = 60;
  std::string result(text.substr(0, kMax));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return "\"" + result + (text.size() > kMax ? "...\"" : "\"");
}

}  // namespace glint::bench
