// The request fields that both endpoints share: sampling, limits, streaming. Checked here, once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "server/api_error.h"
#include "text/grammar/grammar.h"

namespace glint {

/// What omitted fields mean: the model's generation_config.json, else vLLM's neutral values.
struct SamplingDefaults {
  double temperature = 1.0;
  double top_p = 1.0;
  int64_t top_k = 0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  std::optional<int64_t> max_new_tokens;  // an upper limit where the request sets none
};

/// Reads generation_config.json of `folder`; neutral values if there is no such file. Throws bad_input,
/// naming file and key, for values that no request could have.
SamplingDefaults load_sampling_defaults(const std::filesystem::path& folder);

/// Overrides `defaults` by the keys of generation_config.json that `config` has. Throws bad_input naming
/// `what` and the key.
void set_sampling_defaults(const Json& config, std::string_view what, SamplingDefaults& defaults);

/// The most tokens that a chunk of a stream may wait for.
inline constexpr int64_t kStreamIntervalMax = 1 << 20;

/// --max-logprobs without the flag.
inline constexpr int64_t kMaxLogprobs = 20;

enum class Endpoint { chat, completions };

/// The form that an answer is asked to have.
struct StructuredOutput {
  GrammarSource source;
  std::string field;  // where it was asked for, for errors
};

struct GenerationOptions {
  SamplingParams sampling;            // max_tokens is set by limit_tokens()
  std::optional<int64_t> max_tokens;  // as asked for
  int n = 1;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool include_stop_str_in_output = false;
  bool add_special_tokens = false;
  bool echo = false;                    // the prompt in front of the answer
  bool echo_logprobs = false;           // and its logprobs
  bool score_only = false;              // completions, echo, max_tokens 0: nothing is generated
  bool report_prompt_logprobs = false;  // the field of that name is part of the answer
  int32_t prompt_logprobs = 0;          // the alternatives that it shows
  bool tokens_as_ids = false;           // logprobs name tokens "token_id:N"
  bool return_token_ids = false;        // of prompt and answer
  bool return_prompt_text = false;
  std::optional<int64_t>
      truncate_prompt_tokens;   // keep so many tokens of the prompt; -1: as many as the context has
  bool truncate_end = false;    // cut its end, else its beginning
  int64_t stream_interval = 1;  // tokens in a chunk, the first and the last one apart
  int32_t priority = 0;
  std::vector<std::string> bad_words;
  std::optional<StructuredOutput> structured;
  std::string model;       // empty: none named
  std::string request_id;  // empty: none given
  std::string cache_salt;  // empty: none given
};

/// Throws ApiRefusal (400) for a wrong type or range, and for a field that is not implemented yet unless its
/// value asks for nothing (null, false, 0, ...). Unknown fields are ignored. `vocab_size` bounds token ids;
/// max_logprobs the number of alternatives (-1: not bounded).
GenerationOptions parse_generation_options(const OrderedJson& body, Endpoint endpoint,
                                           const SamplingDefaults& defaults, int64_t vocab_size,
                                           int64_t max_logprobs = kMaxLogprobs);

/// A request that is larger than the context.
class ContextExceeded : public ApiRefusal {
 public:
  ContextExceeded(ApiError error, int64_t prompt, std::optional<int64_t> wanted, int64_t max_model_len)
      : ApiRefusal(std::move(error)), prompt_tokens(prompt), max_tokens(wanted), limit(max_model_len) {}
  int64_t prompt_tokens;
  std::optional<int64_t> max_tokens;  // absent: the prompt alone is too long
  int64_t limit;
};

/// Sets sampling.max_tokens for a prompt of so many tokens. Throws ContextExceeded if prompt, or prompt and
/// max_tokens together, exceed the context, or if min_tokens exceeds what remains.
void limit_tokens(GenerationOptions& options, Endpoint endpoint, int64_t prompt_tokens, int64_t max_model_len,
                  const SamplingDefaults& defaults);

/// Logprobs that one request may make the server hold: entries (tokens and their alternatives) of all its
/// prompts and choices, about 350 bytes each.
inline constexpr int64_t kLogprobsHeldMax = int64_t{2} << 20;

/// After limit_tokens(), for one of `prompts` prompts: lowers sampling.max_tokens to what kLogprobsHeldMax
/// leaves, if the request set no max_tokens. Throws ApiRefusal if it did and asks for more, if its prompt
/// alone does, or if a stream would hold more back.
void limit_logprobs(GenerationOptions& options, Endpoint endpoint, int64_t prompt_tokens, int64_t prompts,
                    int64_t vocab_size);

}  // namespace glint
