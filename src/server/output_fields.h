// Request fields that say what an answer tells beside its text, and what happens to a prompt that is too
// long. And those that no answer here could honour.
#pragma once

#include "server/fields.h"
#include "server/generation_options.h"

namespace glint {

/// Notes wrong types; the caller checks.
void check_output_types(Fields& fields);

/// return_token_ids, return_prompt_text, truncate_prompt_tokens, truncation_side and
/// stream_interval. Throws ApiRefusal. After parse_logprobs.
void parse_output_fields(Fields& fields, Endpoint endpoint, GenerationOptions& options);

/// Throws ApiRefusal for a field that asks for what this server never does (beam search, embeddings as
/// prompts, ...), naming what to do instead; values that ask for nothing pass.
void refuse_unserved(const Fields& fields);

/// Shortens the prompt as truncate_prompt_tokens says; says whether it did. `max_model_len` bounds prompt and
/// answer.
bool truncate_prompt(const GenerationOptions& options, int64_t max_model_len, std::vector<TokenId>& prompt);

}  // namespace glint
