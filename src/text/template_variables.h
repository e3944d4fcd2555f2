// What a chat template of any family is given: the variables that transformers and vLLM define.
#pragma once

#include <string>

#include "text/chat_request.h"
#include "text/jinja/value.h"

namespace glint {

/// messages, tools (none without any), documents (none), add_generation_prompt, and every variable of the
/// request. Messages are {"role", "content"} with the content as text; an assistant's have `reasoning` and
/// `reasoning_content` (equal) and `tool_calls` with arguments as objects where there are any; a tool's have
/// `tool_call_id`, and content as a list where several results or references stand in it. Tools are
/// {"type": "function", "function": {"name", "description", "parameters"}} (vLLM's order and nulls).
jinja::Dict template_variables(const ChatRequest& request);

/// continue_final_message with a template that closes turns: drops what stands behind the last message's
/// text. Throws RequestError if the prompt does not hold that text.
void cut_behind_final_message(const ChatRequest& request, std::string& prompt);

}  // namespace glint
