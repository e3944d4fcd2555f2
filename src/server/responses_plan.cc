#include "server/responses_plan.h"

#include "server/request_body.h"
#include "server/responses_format.h"

namespace glint {

namespace {

/// An id that a client sends again must not replace what is stored under it. The claim ends with what is
/// returned.
std::shared_ptr<void> claim_id(GenerationPlan& plan, AnswerIdentity& identity,
                               const std::shared_ptr<ResponseStore>& store) {
  while (!store->claim("resp_" + identity.id)) plan.id = identity.id = random_id();
  return {nullptr, [store, id = "resp_" + identity.id](std::nullptr_t) { store->release(id); }};
}

}  // namespace

ResponsesPlan plan_response(std::string_view body, RequestIds ids, const ServedModel& model,
                            const ApiSettings& settings, std::shared_ptr<ResponseStore> store) {
  ResponsesRequest request = read_responses_request(parse_body(body), *store);
  ResponsesPlan plan;
  plan.generation =
      in_own_words(request.names, [&] { return plan_body(Endpoint::chat, request.chat, model, settings); });
  plan.generation.names = request.names;
  plan.generation.prompt_tokens_details = true;  // a required member of this usage
  if (request.echo["temperature"].is_null()) request.echo["temperature"] = model.defaults.temperature;
  if (request.echo["top_p"].is_null()) request.echo["top_p"] = model.defaults.top_p;
  request.chat = nullptr;
  AnswerIdentity identity = identify_answer(plan.generation, ids, settings);
  request.claim = claim_id(plan.generation, identity, store);
  plan.id = "resp_" + identity.id;
  if (request.background) plan.queued = queued_response(identity, request);
  plan.generation.format = make_responses_format(std::move(identity), std::move(request), std::move(store));
  return plan;
}

}  // namespace glint
