// POST /v1/messages and /v1/messages/count_tokens: Anthropic's API on the generation plan of a chat request.
#pragma once

#include "server/generation_plan.h"

namespace glint {

/// Throws as plan_generation does.
GenerationPlan plan_message(std::string_view body, RequestIds ids, const ServedModel& model,
                            const ApiSettings& settings);

/// {"input_tokens": N}: the tokens of the prompt that plan_message would make. Throws likewise.
OrderedJson count_message_tokens(std::string_view body, const ServedModel& model,
                                 const ApiSettings& settings);

}  // namespace glint
