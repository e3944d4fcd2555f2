#include "server/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "server/api_error.h"

namespace glint {

namespace {

constexpr size_t kLogprobIdsMax = 128;
constexpr size_t kBadWordsMax = 1024;
constexpr size_t kBadWordBytesMax = 4096;
constexpr double kBiasMost = 100;  // OpenAI's bound; larger ones are cut to it, as vLLM does

double penalty(Fields& fields, const char* name) {
  const double value = fields.number(name).value_or(0);
  if (!(value >= -2 && value <= 2)) refuse_field(name, name, " must be in [-2, 2], got ", value, ".");
  return value;
}

TokenId checked_id(const char* field, int64_t id, int64_t vocab_size) {
  if (id < 0 || id >= vocab_size) {
    refuse_field(field, field, " holds the token id ", id, "; the vocabulary has ", vocab_size, " ids.");
  }
  return static_cast<TokenId>(id);
}

int64_t bias_key(const std::string& key) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size()) {
    refuse_field("logit_bias", "logit_bias maps token ids to numbers; '", shortened(key),
                 "' is no token id.");
  }
  return id;
}

void parse_logit_bias(Fields& fields, int64_t vocab_size, SamplingParams& sampling) {
  const OrderedJson* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& [key, value] : bias->items()) {
    const TokenId id = checked_id("logit_bias", bias_key(key), vocab_size);
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (std::isnan(number)) refuse_field("logit_bias", "logit_bias of ", id, " must be a number.");
    const auto clamped = static_cast<float>(std::clamp(number, -kBiasMost, kBiasMost));
    const auto same = std::find_if(sampling.logit_bias.begin(), sampling.logit_bias.end(),
                                   [id](const LogitBias& entry) { return entry.id == id; });
    if (same != sampling.logit_bias.end()) {
      same->bias = clamped;  // "5" and "05"
    } else {
      sampling.logit_bias.push_back({id, clamped});
    }
  }
}

void parse_allowed_ids(Fields& fields, int64_t vocab_size, SamplingParams& sampling) {
  const auto ids = fields.integers("allowed_token_ids");
  if (!ids) return;
  if (ids->empty()) refuse_field("allowed_token_ids", "allowed_token_ids must not be empty; leave it out.");
  sampling.allowed_token_ids.emplace();
  for (const int64_t id : *ids) {
    sampling.allowed_token_ids->push_back(checked_id("allowed_token_ids", id, vocab_size));
  }
}

void parse_bad_words(Fields& fields, GenerationOptions& options) {
  auto words = fields.texts("bad_words");
  if (!words) return;
  if (words->size() > kBadWordsMax)
    refuse_field("bad_words", "bad_words may hold at most ", kBadWordsMax, " words.");
  for (const std::string& word : *words) {
    if (word.empty()) refuse_field("bad_words", "bad_words must not hold an empty string.");
    if (word.size() > kBadWordBytesMax) {
      refuse_field("bad_words", "a word of bad_words may have at most ", kBadWordBytesMax, " bytes.");
    }
  }
  options.bad_words = std::move(*words);
}

/// `count` is what the engine will be asked for; kAllLogprobs is every id.
int32_t checked_count(const char* field, const char* what, int64_t count, int64_t max_logprobs) {
  if (count < kAllLogprobs) refuse_field(field, field, " must be -1 or at least 0, got ", count, ".");
  // vLLM names the field that way for top_logprobs too.
  const char* const over = std::string_view(field) == "top_logprobs" ? "logprobs" : field;
  if (max_logprobs < 0) return static_cast<int32_t>(std::min<int64_t>(count, INT32_MAX));
  if (count == kAllLogprobs) {
    refuse_field(over, "Requested ", what,
                 " logprobs of the whole vocabulary (-1), which is greater than max allowed: ", max_logprobs,
                 "; the server's --max-logprobs sets it.");
  }
  if (count > max_logprobs) {
    refuse_field(over, "Requested ", what, " logprobs of ", count,
                 ", which is greater than max allowed: ", max_logprobs,
                 "; the server's --max-logprobs sets it.");
  }
  return static_cast<int32_t>(count);
}

}  // namespace

void check_sampling_types(Fields& fields, Endpoint endpoint) {
  for (const char* name : {"presence_penalty", "frequency_penalty", "repetition_penalty"}) {
    static_cast<void>(fields.number(name));
  }
  for (const char* name : {"prompt_logprobs", "thinking_token_budget", "priority"}) {
    static_cast<void>(fields.integer(name));
  }
  for (const char* name : {"echo", "return_tokens_as_token_ids"}) static_cast<void>(fields.boolean(name));
  static_cast<void>(fields.object("logit_bias"));
  for (const char* name : {"allowed_token_ids", "logprob_token_ids"})
    static_cast<void>(fields.integers(name));
  static_cast<void>(fields.texts("bad_words"));
  if (endpoint == Endpoint::chat) static_cast<void>(fields.boolean("logprobs"));
  static_cast<void>(fields.integer(endpoint == Endpoint::chat ? "top_logprobs" : "logprobs"));
}

void parse_sampling_rules(Fields& fields, const SamplingDefaults& defaults, int64_t vocab_size,
                          GenerationOptions& options) {
  SamplingParams& sampling = options.sampling;
  sampling.presence_penalty = static_cast<float>(penalty(fields, "presence_penalty"));
  sampling.frequency_penalty = static_cast<float>(penalty(fields, "frequency_penalty"));
  const double repetition = fields.number("repetition_penalty").value_or(defaults.repetition_penalty);
  sampling.repetition_penalty = static_cast<float>(repetition);
  if (!(sampling.repetition_penalty > 0 && std::isfinite(sampling.repetition_penalty))) {
    refuse_field("repetition_penalty", "repetition_penalty must be a finite number above 0, got ", repetition,
                 ".");
  }
  parse_logit_bias(fields, vocab_size, sampling);
  parse_allowed_ids(fields, vocab_size, sampling);
  parse_bad_words(fields, options);
  const int64_t budget = fields.integer("thinking_token_budget").value_or(-1);
  if (budget < -1) {
    refuse_field("thinking_token_budget", "thinking_token_budget must be -1 (no limit) or at least 0, got ",
                 budget, ".");
  }
  sampling.reasoning.budget = budget;
}

void parse_logprobs(Fields& fields, Endpoint endpoint, int64_t max_logprobs, GenerationOptions& options) {
  SamplingParams& sampling = options.sampling;
  options.echo = fields.boolean("echo").value_or(false);
  options.tokens_as_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
  if (endpoint == Endpoint::chat) {
    const bool wanted = fields.boolean("logprobs").value_or(false);
    const int64_t top = fields.integer("top_logprobs").value_or(0);
    if (top != 0 && !wanted) refuse_field("top_logprobs", "top_logprobs needs logprobs to be true.");
    if (wanted) sampling.logprobs = checked_count("top_logprobs", "sample", top, max_logprobs);
  } else if (const auto count = fields.integer("logprobs")) {
    sampling.logprobs = checked_count("logprobs", "sample", *count, max_logprobs);
  }
  if (const auto count = fields.integer("prompt_logprobs")) {
    sampling.prompt_logprobs = checked_count("prompt_logprobs", "prompt", *count, max_logprobs);
    // As in vLLM 0 passes: a stream has no place for them.
    if (options.stream && *count != 0) {
      refuse_field("prompt_logprobs", "prompt_logprobs are not available when stream is true.");
    }
    options.report_prompt_logprobs = !options.stream;
    options.prompt_logprobs = *sampling.prompt_logprobs;
    if (options.stream) sampling.prompt_logprobs.reset();
  }
  // The echoed prompt has logprobs as the answer has.
  if (endpoint == Endpoint::completions && options.echo && sampling.logprobs) {
    sampling.prompt_logprobs =
        !sampling.prompt_logprobs ? sampling.logprobs
        : *sampling.prompt_logprobs == kAllLogprobs || *sampling.logprobs == kAllLogprobs
            ? kAllLogprobs
            : std::max(*sampling.prompt_logprobs, *sampling.logprobs);
    options.echo_logprobs = true;
  }
}

void parse_logprob_ids(Fields& fields, int64_t vocab_size, GenerationOptions& options) {
  constexpr const char* kField = "logprob_token_ids";
  const auto ids = fields.integers(kField);
  if (!ids || ids->empty()) return;
  if (!options.sampling.logprobs) refuse_field(kField, kField, " needs logprobs to be asked for too.");
  if (options.score_only)
    refuse_field(kField, kField, " has no effect on a prompt: let max_tokens be at least 1.");
  if (ids->size() > kLogprobIdsMax)
    refuse_field(kField, kField, " may hold at most ", kLogprobIdsMax, " ids.");
  std::vector<TokenId>& list = options.sampling.logprob_token_ids;
  for (const int64_t id : *ids) {
    const TokenId checked = checked_id(kField, id, vocab_size);
    if (std::find(list.begin(), list.end(), checked) == list.end()) list.push_back(checked);
  }
}

}  // namespace glint
