// POST /tokenize and /detokenize, as vLLM has them.
#pragma once

#include <string_view>

#include "server/generation_plan.h"

namespace glint {

/// {"prompt": text, "add_special_tokens": true} or a chat request {"messages", "tools",
/// "add_generation_prompt", "continue_final_message", "chat_template_kwargs", ...} with add_special_tokens
/// false by default. The answer is {count, max_model_len, tokens, token_strs}; token_strs, with
/// return_token_strs only, are the vocabulary's own spellings. Throws as plan_generation does.
OrderedJson tokenize(std::string_view body, const ServedModel& model, const ApiSettings& settings);

/// {"tokens": [ids]} to {"prompt": text}, special tokens shown.
OrderedJson detokenize(std::string_view body, const ServedModel& model, const ApiSettings& settings);

}  // namespace glint
