#include "server/generation_options.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "server/api_error.h"
#include "server/fields.h"
#include "server/output_fields.h"
#include "server/sampling_fields.h"
#include "server/structured_fields.h"

namespace glint {

namespace {

constexpr int64_t kChoicesMax = 128;
constexpr size_t kStopStringsMax = 128;
constexpr size_t kStopStringBytesMax = 4096;
constexpr size_t kStopIdsMax = 1024;
constexpr size_t kCacheSaltBytesMax = 128;
constexpr double kGreedyBelow = 1e-5;
constexpr double kTemperatureLeast =
    0.01;  // lower positive values overflow the softmax elsewhere; same rule here
constexpr int64_t kCompletionTokens = 16;

void parse_stream(Fields& fields, GenerationOptions& options) {
  options.stream = fields.boolean("stream").value_or(false);
  const OrderedJson* stream_options = fields.object("stream_options");
  if (stream_options == nullptr) return;
  if (!options.stream) refuse_field("stream_options", "stream_options is allowed only if stream is true.");
  Fields inner(*stream_options, "body.stream_options.");
  options.include_usage = inner.boolean("include_usage").value_or(false);
  options.continuous_usage = inner.boolean("continuous_usage_stats").value_or(false) && options.include_usage;
  inner.check();
}

void set_temperature(SamplingParams& sampling, double temperature) {
  if (!(temperature >= 0 && temperature <= 2)) {
    refuse_field("temperature", "temperature must be in [0, 2], got ", temperature, ".");
  }
  if (temperature < kGreedyBelow) {
    temperature = 0;
  } else {
    temperature = std::max(temperature, kTemperatureLeast);
  }
  sampling.temperature = static_cast<float>(temperature);
}

void parse_distribution(Fields& fields, const SamplingDefaults& defaults, SamplingParams& sampling) {
  set_temperature(sampling, fields.number("temperature").value_or(defaults.temperature));
  const double top_p = fields.number("top_p").value_or(defaults.top_p);
  if (!(top_p > 0 && top_p <= 1)) refuse_field("top_p", "top_p must be in (0, 1], got ", top_p, ".");
  const int64_t top_k = fields.integer("top_k").value_or(defaults.top_k);
  if (top_k < -1) refuse_field("top_k", "top_k must be -1 or 0 (off), or at least 1, got ", top_k, ".");
  const double min_p = fields.number("min_p").value_or(defaults.min_p);
  if (!(min_p >= 0 && min_p <= 1)) refuse_field("min_p", "min_p must be in [0, 1], got ", min_p, ".");
  sampling.top_p = static_cast<float>(top_p);
  sampling.top_k = static_cast<int32_t>(std::clamp<int64_t>(top_k, 0, INT32_MAX));
  sampling.min_p = static_cast<float>(min_p);
  if (const auto seed = fields.integer("seed")) sampling.seed = static_cast<uint64_t>(*seed);
}

void parse_stops(Fields& fields, int64_t vocab_size, SamplingParams& sampling) {
  if (auto stop = fields.texts("stop")) {
    if (stop->size() > kStopStringsMax)
      refuse_field("stop", "stop may hold at most ", kStopStringsMax, " strings.");
    for (const std::string& text : *stop) {
      if (text.empty()) refuse_field("stop", "stop must not hold an empty string.");
      if (text.size() > kStopStringBytesMax) {
        refuse_field("stop", "a string of stop may have at most ", kStopStringBytesMax, " bytes.");
      }
    }
    sampling.stop = std::move(*stop);
  }
  const auto ids = fields.integers("stop_token_ids");
  if (!ids) return;
  if (ids->size() > kStopIdsMax)
    refuse_field("stop_token_ids", "stop_token_ids may hold at most ", kStopIdsMax, " ids.");
  for (const int64_t id : *ids) {
    if (id < 0 || id >= vocab_size) {
      refuse_field("stop_token_ids", "stop_token_ids holds ", id, "; the vocabulary has ", vocab_size,
                   " ids.");
    }
    sampling.stop_token_ids.push_back(static_cast<TokenId>(id));
  }
}

void parse_lengths(Fields& fields, Endpoint endpoint, GenerationOptions& options) {
  const char* name = "max_tokens";
  options.max_tokens = fields.integer("max_tokens");
  if (endpoint == Endpoint::chat) {
    if (const auto newer = fields.integer("max_completion_tokens")) {
      name = "max_completion_tokens";
      options.max_tokens = newer;
    }
  }
  if (endpoint == Endpoint::completions && options.echo && options.max_tokens == 0) {
    options.score_only = true;  // the prompt is scored; the engine's one token is dropped
    options.max_tokens = 1;
  }
  if (options.max_tokens && *options.max_tokens < 1) {
    refuse_field(name, name, " must be at least 1, got ", *options.max_tokens, ".");
  }
  options.sampling.min_tokens = fields.integer("min_tokens").value_or(0);
  if (options.sampling.min_tokens < 0) {
    refuse_field("min_tokens", "min_tokens must be at least 0, got ", options.sampling.min_tokens, ".");
  }
  if (options.max_tokens && options.sampling.min_tokens > *options.max_tokens) {
    refuse_field("min_tokens", "min_tokens must not exceed max_tokens (", *options.max_tokens, "), got ",
                 options.sampling.min_tokens, ".");
  }
}

void parse_cache_salt(Fields& fields, GenerationOptions& options) {
  if (fields.get("cache_salt") == nullptr) return;
  options.cache_salt = fields.text("cache_salt").value_or("");
  const bool forbidden = options.cache_salt.find_first_of(std::string_view("@/\\\0", 4)) != std::string::npos;
  if (options.cache_salt.empty() || options.cache_salt.size() > kCacheSaltBytesMax || forbidden) {
    refuse_field("cache_salt", "cache_salt must have 1 to ", kCacheSaltBytesMax,
                 " characters, none of them @, /, \\ or NUL.");
  }
}

void parse_priority(Fields& fields, GenerationOptions& options) {
  const int64_t priority = fields.integer("priority").value_or(0);
  if (priority < INT32_MIN || priority > INT32_MAX) {
    refuse_field("priority", "priority must fit 32 bits, got ", priority, ".");
  }
  options.priority = static_cast<int32_t>(priority);
}

void parse_n(Fields& fields, GenerationOptions& options) {
  const int64_t n = fields.integer("n").value_or(1);
  if (n < 1 || n > kChoicesMax) refuse_field("n", "n must be in [1, ", kChoicesMax, "], got ", n, ".");
  if (n > 1 && options.sampling.temperature == 0) {
    refuse_field("n", "n must be 1 with greedy sampling (temperature 0), got ", n, ".");
  }
  options.n = static_cast<int>(n);
}

double config_number(const Json& config, const char* key, double otherwise, double low, double high,
                     std::string_view what) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return otherwise;
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  if (!(value >= low && value <= high)) {
    fail(ErrorKind::bad_input, what, ": ", key, " is ", dump_json(*found), ", expected a number in [", low,
         ", ", high, "]; correct it or use --generation-config vllm");
  }
  return value;
}

}  // namespace

SamplingDefaults load_sampling_defaults(const std::filesystem::path& folder) {
  SamplingDefaults defaults;
  const auto path = folder / "generation_config.json";
  if (!std::filesystem::exists(path)) return defaults;
  const Json config = parse_json(read_file(path, size_t{1} << 20), path.string());
  if (!config.is_object()) fail(ErrorKind::bad_input, path.string(), ": expected an object");
  set_sampling_defaults(config, path.string(), defaults);
  return defaults;
}

void set_sampling_defaults(const Json& config, std::string_view what, SamplingDefaults& defaults) {
  const auto number = [&](const char* key, double otherwise, double low, double high) {
    return config_number(config, key, otherwise, low, high, what);
  };
  defaults.temperature = number("temperature", defaults.temperature, 0, 2);
  defaults.top_p = number("top_p", defaults.top_p, 1e-6, 1);
  defaults.top_k = static_cast<int64_t>(number("top_k", static_cast<double>(defaults.top_k), -1, INT32_MAX));
  defaults.min_p = number("min_p", defaults.min_p, 0, 1);
  defaults.repetition_penalty = number("repetition_penalty", defaults.repetition_penalty, 1e-6, 1e6);
  if (const double tokens = number("max_new_tokens", 0, 1, 0x1p40); tokens > 0) {
    defaults.max_new_tokens = static_cast<int64_t>(tokens);
  }
}

GenerationOptions parse_generation_options(const OrderedJson& body, Endpoint endpoint,
                                           const SamplingDefaults& defaults, int64_t vocab_size,
                                           int64_t max_logprobs) {
  Fields fields(body);
  GenerationOptions options;
  options.model = fields.text("model").value_or("");
  options.request_id = fields.text("request_id").value_or("");
  if (options.request_id.empty()) options.request_id = fields.text("rid").value_or("");  // SGLang's name
  static_cast<void>(fields.text("cache_salt"));
  options.include_stop_str_in_output = fields.boolean("include_stop_str_in_output").value_or(false);
  options.add_special_tokens =
      fields.boolean("add_special_tokens").value_or(endpoint == Endpoint::completions);
  options.sampling.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  options.sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  // Types first, so that a request with several faults hears of all of them.
  for (const char* name : {"temperature", "top_p", "min_p"}) static_cast<void>(fields.number(name));
  for (const char* name : {"top_k", "seed", "n", "max_tokens", "max_completion_tokens", "min_tokens"}) {
    static_cast<void>(fields.integer(name));
  }
  static_cast<void>(fields.boolean("stream"));
  static_cast<void>(fields.object("stream_options"));
  check_structured_types(fields);
  static_cast<void>(fields.texts("stop"));
  static_cast<void>(fields.integers("stop_token_ids"));
  check_sampling_types(fields, endpoint);
  check_output_types(fields);
  fields.check();

  parse_stream(fields, options);
  parse_logprobs(fields, endpoint, max_logprobs, options);
  parse_sampling_rules(fields, defaults, vocab_size, options);
  options.structured = parse_structured_output(fields);
  refuse_unserved(fields);
  parse_output_fields(fields, endpoint, options);
  parse_distribution(fields, defaults, options.sampling);
  parse_n(fields, options);
  parse_cache_salt(fields, options);
  parse_priority(fields, options);
  parse_lengths(fields, endpoint, options);
  parse_logprob_ids(fields, vocab_size, options);
  parse_stops(fields, vocab_size, options.sampling);
  return options;
}

void limit_tokens(GenerationOptions& options, Endpoint endpoint, int64_t prompt_tokens, int64_t max_model_len,
                  const SamplingDefaults& defaults) {
  const char* prompt = endpoint == Endpoint::chat ? "messages" : "prompt";
  const int64_t room = max_model_len - prompt_tokens;
  const auto exceeded = [&](const char* param, std::string message, std::optional<int64_t> max_tokens) {
    throw ContextExceeded({400, "BadRequestError", std::move(message), param}, prompt_tokens, max_tokens,
                          max_model_len);
  };
  if (room < 1) {
    exceeded(
        prompt,
        cat("This model's maximum context length is ", max_model_len, " tokens. However, your request has ",
            prompt_tokens, " input tokens. Please reduce the length of the ", prompt, "."),
        std::nullopt);
  }
  if (options.max_tokens && *options.max_tokens > room) {
    exceeded(
        "max_tokens",
        cat("This model's maximum context length is ", max_model_len, " tokens. However, your request has ",
            prompt_tokens, " input tokens and asks for ", *options.max_tokens,
            " output tokens. Please reduce the length of the ", prompt, " or max_tokens."),
        options.max_tokens);
  }
  int64_t limit = room;
  if (!options.max_tokens && endpoint == Endpoint::completions) limit = std::min(limit, kCompletionTokens);
  if (defaults.max_new_tokens) limit = std::min(limit, *defaults.max_new_tokens);
  options.sampling.max_tokens = options.max_tokens ? std::min(limit, *options.max_tokens) : limit;
  if (options.sampling.min_tokens > options.sampling.max_tokens) {
    refuse_field("min_tokens", "min_tokens must not exceed max_tokens (", options.sampling.max_tokens,
                 "), got ", options.sampling.min_tokens, ".");
  }
}

namespace {

/// What is held of a token: itself and its alternatives.
int64_t entries(int32_t top, int64_t vocab_size) {
  return 1 + (top == kAllLogprobs ? vocab_size : std::min<int64_t>(top, vocab_size));
}

}  // namespace

void limit_logprobs(GenerationOptions& options, Endpoint endpoint, int64_t prompt_tokens, int64_t prompts,
                    int64_t vocab_size) {
  SamplingParams& sampling = options.sampling;
  const auto room = [&](int64_t each, int64_t times) { return kLogprobsHeldMax / (each * times); };
  if (sampling.prompt_logprobs) {
    const int64_t most = room(entries(*sampling.prompt_logprobs, vocab_size), prompts);
    if (prompt_tokens > most) {
      refuse_field("prompt_logprobs", "prompt_logprobs of ", prompt_tokens,
                   " prompt tokens are too many to hold: with ", *sampling.prompt_logprobs,
                   " alternatives each at most ", most,
                   " tokens are possible; ask for fewer alternatives or send a shorter prompt.");
    }
  }
  if (!sampling.logprobs) return;
  const auto named = static_cast<int64_t>(sampling.logprob_token_ids.size());
  const int64_t each = named > 0 ? 1 + named : entries(*sampling.logprobs, vocab_size);
  const char* const top = named > 0                    ? "logprob_token_ids"
                          : endpoint == Endpoint::chat ? "top_logprobs"
                                                       : "logprobs";
  if (options.stream) {
    // A chunk is gone when it has been sent; more than one token is held back only by stream_interval.
    const int64_t most = std::max<int64_t>(1, room(each, prompts * options.n));
    if (std::min(options.stream_interval, sampling.max_tokens) <= most) return;
    refuse_field("stream_interval", "stream_interval of ", options.stream_interval,
                 " holds too many logprobs back: with this ", top, " at most ", most, " is possible.");
  }
  const int64_t most = room(each, prompts * options.n);
  const int64_t least = options.max_tokens ? sampling.max_tokens : std::max<int64_t>(1, sampling.min_tokens);
  if (most < least) {
    refuse_field(top, "the logprobs of the answer are too many to hold: with this ", top, " and ",
                 prompts * options.n, " choices at most ", most, " tokens are possible, at least ", least,
                 " were asked for; lower max_tokens, n or ", top, ", or set stream.");
  }
  sampling.max_tokens = std::min(sampling.max_tokens, most);
}

}  // namespace glint
