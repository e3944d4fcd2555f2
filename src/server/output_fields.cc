#include "server/output_fields.h"

#include <algorithm>

#include "server/api_error.h"

namespace glint {

namespace {

// Values that ask for nothing.
bool is_false(const OrderedJson& value) {
  return value.is_boolean() && !value.get<bool>();
}
bool is_one(const OrderedJson& value) {
  return value.is_number() && value.get<double>() == 1;
}
bool is_empty(const OrderedJson& value) {
  return value.is_structured() && value.empty();
}
bool is_text_only(const OrderedJson& value) {
  return value == OrderedJson::array({"text"}) || is_empty(value);
}
bool never(const OrderedJson& /*value*/) {
  return false;
}

struct Unserved {
  const char* name;
  bool (*asks_for_nothing)(const OrderedJson& value);
  const char* advice;
};

constexpr Unserved kUnserved[] = {
    {"suffix", never, "is not currently supported; leave it out"},
    {"best_of", is_one, "is not supported; use n"},
    {"use_beam_search", is_false, "is not supported: the engine samples, use n or temperature 0"},
    {"prompt_embeds", never, "is not supported: send text or token ids"},
    {"kv_transfer_params", never, "is not supported: this server computes prompts itself"},
    {"vllm_xargs", is_empty, "is not supported: there are no plugins that could read it"},
    {"watermarking", is_false, "is not supported; leave it out"},
    {"repetition_detection", never, "is not supported; use repetition_penalty, frequency_penalty or stop"},
    {"functions", is_empty, "is the retired form: send tools"},
    {"function_call", never, "is the retired form: send tool_choice"},
    {"audio", never, "is not supported: the model writes text only"},
    {"modalities", is_text_only, "is not supported: the model writes text only"},
    {"web_search_options", never, "is not supported: this server calls no others"},
};

}  // namespace

void check_output_types(Fields& fields) {
  for (const char* name : {"return_token_ids", "return_prompt_text"}) static_cast<void>(fields.boolean(name));
  for (const char* name : {"truncate_prompt_tokens", "stream_interval"})
    static_cast<void>(fields.integer(name));
  static_cast<void>(fields.text("truncation_side"));
}

void parse_output_fields(Fields& fields, Endpoint endpoint, GenerationOptions& options) {
  options.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  options.return_prompt_text = fields.boolean("return_prompt_text").value_or(false);
  options.truncate_prompt_tokens = fields.integer("truncate_prompt_tokens");
  if (const auto keep = options.truncate_prompt_tokens; keep && *keep != -1 && *keep < 1) {
    refuse_field("truncate_prompt_tokens",
                 "truncate_prompt_tokens must be -1 (what the context holds) or at least 1, got ", *keep,
                 ".");
  }
  const std::string side = fields.text("truncation_side").value_or("left");
  if (side != "left" && side != "right") {
    refuse_field("truncation_side", "truncation_side must be left or right, got '", shortened(side), "'.");
  }
  options.truncate_end = side == "right";
  if (options.truncate_end && endpoint == Endpoint::chat && options.truncate_prompt_tokens) {
    refuse_field("truncation_side", "truncation_side right would cut off where the answer begins; use left.");
  }
  options.stream_interval = fields.integer("stream_interval").value_or(1);
  if (options.stream_interval < 1 || options.stream_interval > kStreamIntervalMax) {
    refuse_field("stream_interval", "stream_interval must be in [1, ", kStreamIntervalMax, "], got ",
                 options.stream_interval, ".");
  }
}

void refuse_unserved(const Fields& fields) {
  for (const Unserved& field : kUnserved) {
    const OrderedJson* value = fields.get(field.name);
    if (value != nullptr && !field.asks_for_nothing(*value))
      refuse_field(field.name, field.name, " ", field.advice);
  }
}

bool truncate_prompt(const GenerationOptions& options, int64_t max_model_len, std::vector<TokenId>& prompt) {
  if (!options.truncate_prompt_tokens) return false;
  int64_t keep = *options.truncate_prompt_tokens;
  if (keep < 0) keep = std::max<int64_t>(1, max_model_len - options.max_tokens.value_or(1));
  const int64_t over = static_cast<int64_t>(prompt.size()) - keep;
  if (over <= 0) return false;
  if (options.truncate_end) {
    prompt.resize(static_cast<size_t>(keep));
  } else {
    prompt.erase(prompt.begin(), prompt.begin() + over);
  }
  return true;
}

}  // namespace glint
