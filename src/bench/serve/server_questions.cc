#include "bench/serve/server_questions.h"

#include <optional>
#include <ostream>

#include "base/error.h"
#include "base/json.h"

namespace glint::bench {

namespace {

std::optional<Json> ask_json(const Target& target, const HttpAsk& ask) {
  const HttpReply reply = fetch(target, ask);
  if (!reply.ok()) return std::nullopt;
  try {
    return parse_json(reply.body, ask.path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

HttpAsk question(const char* path, const HttpHeaders& headers, const Json& body) {
  HttpAsk ask;
  ask.method = "POST";
  ask.path = path;
  ask.headers = headers;
  ask.body = dump_json(body);
  return ask;
}

std::optional<std::vector<TokenId>> tokenize(const Target& target, const HttpHeaders& headers,
                                             const std::string& model, const std::string& prompt) {
  const auto answer = ask_json(
      target,
      question("/tokenize", headers, {{"model", model}, {"prompt", prompt}, {"add_special_tokens", false}}));
  if (!answer || !answer->is_object() || !answer->contains("tokens")) return std::nullopt;
  try {
    return (*answer)["tokens"].get<std::vector<TokenId>>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<ServedModelEntry> served_models(const Target& target, const HttpHeaders& headers) {
  std::vector<ServedModelEntry> models;
  HttpAsk ask;
  ask.path = "/v1/models";
  ask.headers = headers;
  const auto answer = ask_json(target, ask);
  if (!answer || !answer->is_object() || !answer->contains("data")) return models;
  for (const Json& entry : (*answer)["data"]) {
    if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) continue;
    ServedModelEntry model;
    model.id = entry["id"].get<std::string>();
    const auto root = entry.find("root");
    model.root = root != entry.end() && root->is_string() ? root->get<std::string>() : model.id;
    models.push_back(std::move(model));
  }
  return models;
}

void check_reachable(const Target& target) {
  HttpAsk ask;
  ask.path = "/health";
  ask.timeout_s = 30;
  const HttpReply reply = fetch(target, ask);
  if (reply.status != 0) return;
  fail(ErrorKind::io, reply.error,
       " (--base-url, --host and --port name the server; --ready-check-timeout-sec waits "
       "for one that is starting)");
}

std::string metrics_text(const Target& target, const HttpHeaders& headers) {
  HttpAsk ask;
  ask.path = "/metrics";
  ask.headers = headers;
  const HttpReply reply = fetch(target, ask);
  return reply.ok() ? reply.body : "";
}

void align_prompts(const Target& target, const HttpHeaders& headers, const std::string& model,
                   std::vector<SampleRequest>& requests, std::ostream& out) {
  if (requests.empty()) return;
  const auto first = tokenize(target, headers, model, requests.front().prompt);
  if (!first) {
    out << "WARNING: /tokenize unavailable, skipping alignment.\n";
    return;
  }
  if (static_cast<int64_t>(first->size()) == requests.front().prompt_len) return;
  out << "WARNING: tokenizer mismatch (server=" << first->size()
      << ", expected=" << requests.front().prompt_len << "), re-aligning prompts.\n";
  for (SampleRequest& request : requests) {
    auto ids = tokenize(target, headers, model, request.prompt);
    if (!ids || static_cast<int64_t>(ids->size()) <= request.prompt_len) continue;
    ids->resize(static_cast<size_t>(request.prompt_len));
    const auto answer =
        ask_json(target, question("/detokenize", headers, {{"model", model}, {"tokens", *ids}}));
    if (answer && answer->is_object() && answer->contains("prompt") && (*answer)["prompt"].is_string()) {
      request.prompt = (*answer)["prompt"].get<std::string>();
    }
  }
}

}  // namespace glint::bench
