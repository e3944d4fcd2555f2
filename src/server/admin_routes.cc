// The part of ApiService that interferes: ends requests from outside, forgets the prefix cache.
#include <algorithm>

#include "server/api_error.h"
#include "server/api_service.h"
#include "server/fields.h"
#include "server/request_body.h"

namespace glint {

namespace {

constexpr const char* kNames[] = {"reset_running_requests", "reset_external"};

/// The switches of "a=true&b=0" as an object, so that they are read as those of a body are.
OrderedJson switches_of(std::string_view query) {
  OrderedJson found = OrderedJson::object();
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string name(pair.substr(0, equals));
    const std::string value(pair.substr(std::min(pair.size(), equals + 1)));
    const bool yes = equal_ignoring_case(value, "true") || value == "1";
    const bool no = equal_ignoring_case(value, "false") || value == "0";
    found[name] = yes || no ? OrderedJson(yes) : OrderedJson(value);
  }
  return found;
}

CacheReset read_reset(const OrderedJson& switches, const char* place) {
  Fields fields(switches, place);
  CacheReset reset;
  reset.running = fields.boolean(kNames[0]).value_or(false);
  reset.tier = fields.boolean(kNames[1]).value_or(false);
  fields.check();
  return reset;
}

void reset(Engine& engine, CacheReset what) {
  if (!engine.alive())
    throw ApiRefusal(http_error(503, "the engine has stopped; the server must be restarted"));
  engine.reset_prefix_cache(what);
}

}  // namespace

/// vLLM's: reset_running_requests and reset_external stand in the query; clients that put them into a body
/// mean the same.
HttpResponse ApiService::reset_prefix_cache(const HttpRequest& request, Engine& engine) {
  const CacheReset asked = read_reset(switches_of(request.query), "query.");
  CacheReset wanted = asked;
  if (!request.body.empty()) {
    const CacheReset more = read_reset(parse_body(request.body), "body.");
    wanted = {asked.running || more.running, asked.tier || more.tier};
  }
  reset(engine, wanted);
  return {};
}

/// SGLang's, which answers in words and refuses while requests run; here they go on.
HttpResponse ApiService::flush_cache(Engine& engine) {
  reset(engine, {});
  return {200, "text/plain; charset=utf-8", "Cache flushed.\n", {}, false};
}

/// SGLang: {"rid": id} or {"abort_all": true}; vLLM: {"request_ids": [ids]}. Both answer 200 whether the ids
/// are known or not.
HttpResponse ApiService::abort_requests(const HttpRequest& request) {
  const OrderedJson body = parse_body(request.body);
  Fields fields(body);
  const bool all = fields.boolean("abort_all").value_or(false);
  std::vector<std::string> ids = fields.texts("request_ids").value_or(std::vector<std::string>());
  for (std::string& id : fields.texts("rid").value_or(std::vector<std::string>()))
    ids.push_back(std::move(id));
  fields.check();
  if (!all && fields.get("rid") == nullptr && fields.get("request_ids") == nullptr) {
    refuse_body("body.rid", "expected rid, request_ids or abort_all");
  }
  if (all) {
    open_answers_.abort_all();
  } else {
    for (const std::string& id : ids) open_answers_.abort(clean_request_id(id));
  }
  return {};
}

}  // namespace glint
