// The request fields of what stands between logits and token, and of what is reported about it.
#pragma once

#include <cstdint>

#include "server/fields.h"
#include "server/generation_options.h"

namespace glint {

/// Notes wrong types in `fields`; nothing else.
void check_sampling_types(Fields& fields, Endpoint endpoint);

/// presence_penalty, frequency_penalty, repetition_penalty, logit_bias, allowed_token_ids, bad_words,
/// thinking_token_budget. Throws ApiRefusal.
void parse_sampling_rules(Fields& fields, const SamplingDefaults& defaults, int64_t vocab_size,
                          GenerationOptions& options);

/// logprobs, top_logprobs, prompt_logprobs, echo, return_tokens_as_token_ids. Throws ApiRefusal. After
/// `stream` has been read; max_logprobs -1: as many as there are.
void parse_logprobs(Fields& fields, Endpoint endpoint, int64_t max_logprobs, GenerationOptions& options);

/// logprob_token_ids, which take the place of the most likely ids (vLLM's rule). After parse_logprobs and the
/// lengths. Throws ApiRefusal.
void parse_logprob_ids(Fields& fields, int64_t vocab_size, GenerationOptions& options);

}  // namespace glint
