// POST /v1/responses: OpenAI's Responses API on the generation plan of a chat request.
#pragma once

#include <memory>
#include <optional>

#include "server/generation_plan.h"
#include "server/response_store.h"

namespace glint {

struct ResponsesPlan {
  GenerationPlan generation;
  std::string id;                     // of the response
  std::optional<std::string> queued;  // background: the answer for now
};

/// Throws as plan_generation does.
ResponsesPlan plan_response(std::string_view body, RequestIds ids, const ServedModel& model,
                            const ApiSettings& settings, std::shared_ptr<ResponseStore> store);

}  // namespace glint
