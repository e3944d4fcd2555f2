// Models, health, metrics, headers: everything that is not generation.
#include <chrono>
#include <thread>

#include "bench/doctor/session.h"
#include "bench/serve/speculation_counts.h"

namespace glint::bench {

namespace {

void models(const Session& session, Findings& findings) {
  const Reply reply = session.get("/v1/models");
  if (!is_good(reply, findings)) return;
  findings.must(text_of(reply.json, "object") == "list", "object is ",
                dump_json(member(reply.json, "object")), ", not \"list\"");
  const Json& data = member(reply.json, "data");
  if (!findings.must(data.is_array() && !data.empty(), "data is no list of models")) return;
  const Json& card = data.front();
  findings.must(!text_of(card, "id").empty(), "a model without id");
  findings.must(text_of(card, "object") == "model", "a model's object is ",
                dump_json(member(card, "object")));
  findings.must(member(card, "created").is_number_integer(), "created is no whole number");
  findings.must(!text_of(card, "owned_by").empty(), "no owned_by");
  for (const char* name : {"root", "max_model_len", "permission"}) {
    findings.should(card.contains(name), "no ", name);
  }
}

void health(const Session& session, Findings& findings) {
  const Reply reply = session.get("/health");
  if (is_missing(reply, findings)) return;
  findings.must(reply.status() == 200, "answered ", reply.said());
  findings.should(reply.http.body.empty(), "the body is not empty: ", shown(reply.http.body));
}

void ping(const Session& session, Findings& findings) {
  const Reply reply = session.get("/ping");
  if (is_missing(reply, findings)) return;
  findings.must(reply.status() == 200, "GET answered ", reply.said());
  const Reply post = session.post("/ping", OrderedJson::object());
  findings.should(post.status() == 200, "POST answered ", post.said());
}

void version(const Session& session, Findings& findings) {
  const Reply reply = session.get("/version");
  if (!is_good(reply, findings)) return;
  findings.must(!text_of(reply.json, "version").empty(), "no version in ", shown(reply.http.body));
}

void metrics(const Session& session, Findings& findings) {
  const Reply reply = session.get("/metrics");
  if (is_missing(reply, findings)) return;
  if (!findings.must(reply.status() == 200, "answered ", reply.said())) return;
  findings.must(reply.http.header("content-type").starts_with("text/plain"), "content-type is ",
                reply.http.header("content-type"));
  for (const char* name :
       {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
        "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_bucket", "vllm:e2e_request_latency_seconds_bucket",
        "vllm:request_success_total", "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"}) {
    findings.should(reply.http.body.find(name) != std::string::npos, "no ", name);
  }
}

/// Counts of vllm bench serve; a server that does not draft has none.
void speculation_metrics(const Session& session, Findings& findings) {
  const Reply reply = session.get("/metrics");
  if (is_missing(reply, findings)) return;
  const auto counts = read_speculation_counts(reply.http.body);
  if (!counts) return findings.skip("no vllm:spec_decode counters: as a rule that means no drafting");
  findings.must(counts->accepted_tokens <= counts->draft_tokens, "more drafts accepted than made");
  int64_t last = counts->drafts;
  for (const auto& [position, accepted] : counts->accepted_at) {
    findings.must(accepted <= last, "position ", position, " was accepted more often than the one before it");
    last = accepted;
  }
}

void cors(const Session& session, Findings& findings) {
  const Reply plain = session.get("/v1/models", {{"Origin", "http://doctor.example"}});
  findings.should(!plain.http.header("access-control-allow-origin").empty(),
                  "no Access-Control-Allow-Origin for a request with Origin");
  const Reply preflight = session.send("OPTIONS", "/v1/chat/completions",
                                       {{"Origin", "http://doctor.example"},
                                        {"Access-Control-Request-Method", "POST"},
                                        {"Access-Control-Request-Headers", "authorization,content-type"}},
                                       "");
  findings.should(preflight.status() == 200 || preflight.status() == 204, "the preflight got ",
                  preflight.said());
  findings.should(!preflight.http.header("access-control-allow-methods").empty(),
                  "the preflight names no methods");
  findings.should(!preflight.http.header("access-control-allow-headers").empty(),
                  "the preflight names no headers");
}

void request_id(const Session& session, Findings& findings) {
  const Reply reply = session.post("/v1/chat/completions", session.chat("Hello", {{"max_tokens", 1}}),
                                   {{"X-Request-Id", "doctor-4711"}});
  if (!is_good(reply, findings)) return;
  findings.should(text_of(reply.json, "id").find("doctor-4711") != std::string::npos,
                  "X-Request-Id is not in the answer's id ", shown(text_of(reply.json, "id")));
}

void long_header(const Session& session, Findings& findings) {
  const Reply reply = session.post("/v1/completions", session.completion("Hi", {{"max_tokens", 1}}),
                                   {{"X-Long", std::string(32768, 'x')}});
  if (!findings.must(reply.status() != 0, "a header of 32 KiB breaks the connection: ", reply.http.error))
    return;
  findings.should(reply.status() == 200, "a header of 32 KiB gets ", reply.said());
}

void authentication(const Session& session, Findings& findings) {
  const Reply reply = session.get("/v1/models", {{"Authorization", "Bearer no-such-key-at-all"}});
  if (session.api_key().empty()) {
    findings.should(reply.status() == 200,
                    "without a key the list is open, with a wrong one: ", reply.said());
    return;
  }
  findings.must(reply.status() == 401, "a wrong key gets ", reply.said(), ", not 401");
  findings.should(session.get("/health", {{"Authorization", "Bearer no-such-key-at-all"}}).status() == 200,
                  "/health wants a key");
}

void unknown_path(const Session& session, Findings& findings) {
  const Reply reply = session.get("/v1/no/such/path");
  findings.must(reply.status() == 404, "answered ", reply.said());
  findings.should(reply.json.is_object(), "the body is no JSON: ", shown(reply.http.body));
  const Reply method = session.get("/v1/chat/completions");
  findings.should(method.status() == 405, "GET /v1/chat/completions answered ", method.said(), ", not 405");
}

double metric_value(const std::string& page, const std::string& name) {
  double sum = 0;
  size_t at = 0;
  while ((at = page.find("\n" + name, at)) != std::string::npos) {
    const size_t end = page.find('\n', at + 1);
    const std::string line = page.substr(at + 1, end - at - 1);
    at += 1;
    const char next = line.size() > name.size() ? line[name.size()] : '\0';
    if (next != '{' && next != ' ') continue;
    sum += std::strtod(line.c_str() + line.rfind(' '), nullptr);
  }
  return sum;
}

/// A client that goes away ends its request.
void disconnect(const Session& session, Findings& findings) {
  const std::string name = "vllm:num_requests_running";
  const auto page = [&] { return session.get("/metrics").http.body; };
  if (page().find(name) == std::string::npos) return findings.skip("no ", name, " on /metrics");
  if (metric_value(page(), name) > 0) return findings.skip("the server is busy with other requests");
  const int64_t room = session.max_model_len() > 0 ? session.max_model_len() / 2 : 2000;
  if (!session.break_stream(
          "/v1/completions",
          session.completion("Once upon a time",
                             {{"max_tokens", std::min<int64_t>(room, 100'000)}, {"ignore_eos", true}}))) {
    return findings.skip("no stream to leave");
  }
  const double end_s = now_s() + 5;
  while (metric_value(page(), name) > 0 && now_s() < end_s)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  findings.must(metric_value(page(), name) == 0, "the request runs on 5 s after its client has gone");
}

void server_info(const Session& session, Findings& findings) {
  for (const char* path : {"/load", "/server_info", "/get_server_info", "/get_model_info"}) {
    const Reply reply = session.get(path);
    if (reply.status() == 404) {
      findings.missing(path);
    } else {
      findings.must(reply.status() == 200 && reply.json.is_object(), path, " answered ", reply.said());
    }
  }
}

}  // namespace

void add_basic_checks(std::vector<DoctorCheck>& checks) {
  checks.push_back({"server: models", models});
  checks.push_back({"server: health", health});
  checks.push_back({"server: ping", ping});
  checks.push_back({"server: version", version});
  checks.push_back({"server: metrics", metrics});
  checks.push_back({"server: counters of speculation", speculation_metrics});
  checks.push_back({"server: load and server_info", server_info});
  checks.push_back({"server: CORS", cors});
  checks.push_back({"server: request id", request_id});
  checks.push_back({"server: long header", long_header});
  checks.push_back({"server: keys", authentication});
  checks.push_back({"server: unknown path and method", unknown_path});
  checks.push_back({"server: disconnect", disconnect});
}

}  // namespace glint::bench
