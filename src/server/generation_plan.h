// From a request's body to what has to be generated: prompts as ids, sampling, and how the answer is read and
// written. All of it runs off the io threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer_format.h"
#include "server/answer_metrics.h"
#include "server/field_names.h"
#include "server/generation_options.h"
#include "server/http_front.h"
#include "server/metrics_page.h"
#include "server/request_trace.h"
#include "server/watchdog.h"
#include "text/chat_template.h"
#include "text/grammar/grammar_cache.h"
#include "text/grammar/tool_rules.h"
#include "text/output_tags.h"
#include "text/tokenizer.h"

namespace glint {

/// A model that is ready to serve.
struct ServedModel {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;  // none: chat requests are refused
  std::shared_ptr<const OutputTags> tags;     // set if chat_template is
  std::optional<TokenId> primary_eos;         // the config's first eos id
  int64_t vocab_size = 0;
  SamplingDefaults defaults;
  std::vector<TokenId> eos;                // all that end an answer
  std::shared_ptr<GrammarCache> grammars;  // none: requests for structured output are refused
};

struct HealthOptions {
  WatchdogOptions watchdog;
  /// The server is ready while a forward pass gave usable logits within this time; an idle server asks for
  /// one of its own in half of it. 0: ready as soon as the model is loaded.
  std::chrono::milliseconds ready_within{30'000};
};

/// Settings of the API that do not depend on the model.
struct ApiSettings {
  std::vector<std::string> model_names;     // the first is used in answers; each is accepted
  std::vector<std::string> model_aliases;   // accepted too, not listed
  std::string model_root;                   // the path as given, for /v1/models
  std::vector<std::string> api_keys;        // empty: open
  std::vector<std::string> admin_api_keys;  // for the routes that change the server; empty: api_keys
  FrontOptions front;
  bool hide_openapi = false;  // no /openapi.json
  ReasoningField reasoning_field = ReasoningField::reasoning;
  bool auto_tool_choice = true;
  ToolCallConstraintMode tool_call_constraint = ToolCallConstraintMode::forced;
  int64_t max_logprobs = kMaxLogprobs;             // of one token; -1: as many as there are
  bool prompt_tokens_details = false;              // usage tells how much of the prompt was cached
  AnswerMetricsOptions answer_metrics;             // what answers tell of themselves
  int64_t stream_interval = 1;                     // of requests that do not say
  bool tokens_as_ids = false;                      // likewise, in logprobs
  bool force_include_usage = false;                // streams end with a usage chunk, asked for or not
  OrderedJson default_chat_template_kwargs;        // null or an object
  bool trust_request_chat_template = false;        // requests may bring their own chat_template
  size_t response_store_bytes = size_t{64} << 20;  // of answers of /v1/responses that can be asked for again
  MetricsCompat metrics;
  HealthOptions health;
  TraceOptions traces;
};

struct GenerationPlan {
  EngineClock::time_point arrived;  // the end of the HTTP request
  Endpoint endpoint = Endpoint::chat;
  GenerationOptions options;
  std::vector<std::vector<TokenId>> prompts;  // each answered by options.n choices
  OutputStreamOptions output;
  std::vector<SamplingParams> sampling;  // one per prompt
  std::vector<std::string> echoes;  // what stands in front of an answer, one per prompt; empty without echo
  bool prompt_tokens_details = false;
  AnswerMetricsOptions answer_metrics;
  std::string id;     // of the answer, without its prefix
  std::string model;  // the name that the answer carries
  FieldNames names;   // what the client calls the fields, for errors that come later
  RequestTrace trace;
  std::shared_ptr<AnswerFormat> format;
  /// What the text of an answer has to obey; one for each answer, they have state. Empty: nothing.
  std::function<std::shared_ptr<TokenConstraint>()> make_constraint;
};

/// The ids that come with a request beside its body; each may be empty.
struct RequestIds {
  std::string_view header;     // the client's X-Request-Id: wins over the body's
  std::string_view generated;  // HttpRequest::generated_id: stands in for both
};
/// Of `head`, whose texts stay there.
RequestIds ids_of_request(const HttpRequest& head);

/// Parses, checks, renders and tokenizes. Throws ApiRefusal, RequestError or Error (see error_of).
GenerationPlan plan_generation(Endpoint endpoint, std::string_view body, RequestIds ids,
                               const ServedModel& model, const ApiSettings& settings);

/// The parts, for APIs whose requests are translated into chat requests: everything but the format, and what
/// the format needs.
GenerationPlan plan_body(Endpoint endpoint, const OrderedJson& body, const ServedModel& model,
                         const ApiSettings& settings);
/// Sets plan.id: the header's, else the body's, else the generated or a random one.
AnswerIdentity identify_answer(GenerationPlan& plan, RequestIds ids, const ApiSettings& settings);

}  // namespace glint
