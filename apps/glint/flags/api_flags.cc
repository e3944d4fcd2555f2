#include "engine/logprobs.h"
#include "flags/groups.h"
#include "server/answer_format.h"
#include "text/chat_template.h"

namespace glint {

namespace {

ToolCallConstraintMode parse_tool_call_constraint(std::string_view name) {
  if (name == "off") return ToolCallConstraintMode::off;
  if (name == "forced") return ToolCallConstraintMode::forced;
  if (name == "all") return ToolCallConstraintMode::all;
  fail(ErrorKind::bad_input, "invalid choice: '", name, "' (choose from off, forced, all)");
}

}  // namespace

void add_api_flags(FlagTable& table, ServeFlags& to) {
  ApiSettings& api = to.serve.api;
  table.group("API", {"Frontend", "StructuredOutputsConfig"});
  table.add(list_flag("api-key", api.api_keys)
                .metavar("KEY")
                .env("VLLM_API_KEY")
                .secret()
                .help("Keys of which clients must send one; without any the server is open"));
  table.add(value_flag("reasoning-field", api.reasoning_field,
                       ReadBy<ReasoningField>{
                           parse_reasoning_field, {"reasoning", "reasoning_content", "both"}, "reasoning"})
                .metavar("NAME")
                .help("Field of the answers that carries the reasoning"));
  table.add(value_flag("tool-call-parser", to.tool_call_parser, Choice{{"glm47", "glm45", "glm"}})
                .metavar("NAME")
                .help("One parser reads all"));
  table.add(value_flag("reasoning-parser", to.reasoning_parser, Choice{{"glm45", "glm47", "glm"}})
                .metavar("NAME")
                .help("One parser reads all"));
  table.add(
      toggle_flag("enable-auto-tool-choice", to.enable_auto_tool_choice)
          .form_default(std::string(kLaunchServer), "on")
          .help("Let the model decide on tool calls where tool_choice is auto; needs --tool-call-parser"));
  table.add(value_flag("tool-call-constraint", api.tool_call_constraint,
                       ReadBy<ToolCallConstraintMode>{
                           parse_tool_call_constraint, {"off", "forced", "all"}, "forced"})
                .metavar("WHERE")
                .help("Tool calls are valid by construction: forced where tool_choice demands one, all "
                      "wherever there are tools, off nowhere"));
  table.add(value_flag("max-logprobs", api.max_logprobs, WholeNumber{-1, 1 << 24})
                .metavar("N")
                .help("Alternatives of a token that a request may ask for; -1: the whole vocabulary"));
  table.add(value_flag(
                "logprobs-mode", to.engine.logprobs_mode,
                ReadBy<LogprobsMode>{parse_logprobs_mode,
                                     {"raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"},
                                     "raw_logprobs"})
                .metavar("MODE")
                .help("What logprobs report"));
  table.add(toggle_flag("enable-prompt-tokens-details", api.prompt_tokens_details)
                .alias("enable-cache-report")
                .help("usage tells how many tokens of the prompt were cached"));
  table.add(toggle_flag("return-tokens-as-token-ids", api.tokens_as_ids)
                .help("Logprobs name tokens token_id:N, unless a request says otherwise"));
  table.add(toggle_flag("enable-per-request-metrics", api.answer_metrics.timings)
                .help("Answers of one choice carry `metrics`: queue, first token, generation in ms"));
  table.add(value_flag("per-request-spec-decode-metrics", api.answer_metrics.drafts,
                       ReadBy<DraftMetrics>{parse_draft_metrics, {"none", "summary", "detailed"}, "none"})
                .metavar("WHAT")
                .help("The same for drafts: counts, or the counts of every step"));
  table.add(value_flag("stream-interval", api.stream_interval, WholeNumber{1, kStreamIntervalMax})
                .metavar("N")
                .help("Tokens in a chunk of a stream, the first and the last one apart; the field "
                      "stream_interval of a request wins"));
  table.add(toggle_flag("enable-force-include-usage", api.force_include_usage)
                .help("Streams end with a usage chunk, asked for or not"));
  table.add(
      value_flag("chat-template", to.chat_template, CheckedText{[](std::string_view text) {
                   if (!text.empty()) (void)ChatTemplate::from_flag(std::string(text));
                 }})
          .metavar("FILE|TEXT")
          .default_text("the model folder's")
          .help("Another Jinja template for chat requests; docs/chat-templates.md says who renders it"));
  table.add(toggle_flag("trust-request-chat-template", api.trust_request_chat_template)
                .help("Requests may bring a chat_template of their own"));
  table.add(object_flag("default-chat-template-kwargs", api.default_chat_template_kwargs)
                .help("Template variables, below the request's own"));
}

}  // namespace glint
