// What an answer has to obey, from what its request asks for: structured output, tool calls, and from where
// on.
#pragma once

#include "server/generation_plan.h"

namespace glint {

/// Compiles what plan.options.structured asks for and sets plan.make_constraint; nothing if it asks for
/// nothing. Throws ApiRefusal naming the field.
void constrain_text(const ServedModel& model, GenerationPlan& plan);

/// The same for a chat answer, and for its tool calls as far as `mode` says; sets the rules of the reasoning,
/// if the answer begins inside one, so that nothing can end the answer before what it promises. Throws
/// ApiRefusal, also for a tool_choice that demands a call where that cannot be enforced.
void constrain_chat(const ServedModel& model, const ChatRequest& request, bool starts_in_reasoning,
                    ToolCallConstraintMode mode, GenerationPlan& plan);

/// For a text that begins inside the reasoning and has a constraint: the constraint begins behind </think>,
/// and until then nothing can end the text.
void constrain_behind_reasoning(const ServedModel& model, ReasoningRules& reasoning);

}  // namespace glint
