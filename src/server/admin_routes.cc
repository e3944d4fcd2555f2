// The part of ApiService that interferes: ends requests from outside.
#include "server/api_error.h"
#include "server/api_service.h"
#include "server/fields.h"
#include "server/request_body.h"

namespace glint {

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
