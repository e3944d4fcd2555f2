#include "server/generation_plan.h"

#include <algorithm>
#include <ctime>

#include "server/answer_constraint.h"
#include "server/api_error.h"
#include "server/fields.h"
#include "server/output_fields.h"
#include "server/request_body.h"

namespace glint {

namespace {

constexpr size_t kPromptsMax = 1024;
constexpr size_t kChoicesMax = 1024;  // of all prompts together

void check_tool_choice(const ChatRequest& request, const ApiSettings& settings) {
  switch (request.tool_choice.mode) {
    case ToolChoiceMode::none:
      return;
    case ToolChoiceMode::automatic:
      if (!settings.auto_tool_choice) {
        refuse_field(
            "tool_choice",
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set");
      }
      return;
    case ToolChoiceMode::required:
    case ToolChoiceMode::named:
      return;  // answer_constraint.cc
  }
}

/// Only a budget makes the reasoning the sampler's concern. It holds for one that begins later, too.
void set_reasoning(const OutputTags& tags, bool begins_inside, ReasoningRules& reasoning) {
  if (reasoning.budget < 0) return;
  reasoning.close = tags.id(OutputTag::think_close);
  reasoning.open = tags.id(OutputTag::think_open);
  reasoning.call_open = tags.id(OutputTag::call_open);
  reasoning.call_close = tags.id(OutputTag::call_close);
  if (begins_inside) reasoning.ends = {reasoning.close, reasoning.call_open};
}

/// The same question for ids: the last think tag behind the last role token is an opening one.
bool opens_reasoning(const std::vector<TokenId>& prompt, const ServedModel& model) {
  for (auto id = prompt.rbegin(); id != prompt.rend(); ++id) {
    const OutputTag tag = model.tags->of(*id);
    if (tag == OutputTag::think_open || tag == OutputTag::think_close) return tag == OutputTag::think_open;
    if (model.tokenizer->is_special(*id)) return false;
  }
  return false;
}

/// vLLM's rule: a word counts at the beginning of a text and, if its first token differs then, behind a
/// space.
void set_bad_words(const Tokenizer& tokenizer, GenerationPlan& plan) {
  for (const std::string& word : plan.options.bad_words) {
    const size_t begin = word.find_first_not_of(" \t\r\n\f\v");
    const std::string bare = begin == std::string::npos ? "" : word.substr(begin);
    std::vector<TokenId> first = tokenizer.encode(bare, false);
    std::vector<TokenId> spaced = tokenizer.encode(" " + bare, false);
    auto& list = plan.options.sampling.bad_words;
    const bool differs = first.empty() || (spaced.size() == first.size() && spaced.front() != first.front());
    if (!first.empty()) list.push_back(std::move(first));
    if (differs && !spaced.empty()) list.push_back(std::move(spaced));
  }
}

void plan_chat(const OrderedJson& body, const ServedModel& model, const ApiSettings& settings,
               GenerationPlan& plan) {
  ChatPrompt prompt = make_chat_prompt(body, plan.options.add_special_tokens, model, settings);
  const ChatRequest& request = prompt.request;
  check_tool_choice(request, settings);
  plan.prompts.push_back(std::move(prompt.tokens));
  if (plan.options.echo && !request.messages.empty()) {
    const ChatMessage& last = request.messages.back();
    plan.echoes.push_back(last.role == ChatRole::assistant ? last.text : "");
  }
  set_reasoning(*model.tags, prompt.rendered.starts_in_reasoning, plan.options.sampling.reasoning);
  constrain_chat(model, request, prompt.rendered.starts_in_reasoning, settings.tool_call_constraint, plan);
  // Without its reasoning an answer has no logprobs either: they would tell it.
  if (!request.include_reasoning) plan.options.sampling.logprobs.reset();
  plan.output.mode = OutputMode::chat;
  plan.output.parser.starts_in_reasoning = prompt.rendered.starts_in_reasoning;
  plan.output.parser.tools = std::make_shared<const ToolSet>(request.tools);
  plan.output.parser.tool_choice = request.tool_choice;
  plan.output.parser.parallel_tool_calls = request.parallel_tool_calls;
  plan.output.parser.include_reasoning = request.include_reasoning;
}

void plan_completion(const OrderedJson& body, const ServedModel& model, GenerationPlan& plan) {
  const OrderedJson* prompt = Fields(body).get("prompt");
  if (prompt == nullptr) refuse_body("body.prompt", "body.prompt: the field is missing");
  const auto add = [&](const OrderedJson& value) {
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      plan.prompts.push_back(model.tokenizer->encode(text, plan.options.add_special_tokens));
      if (plan.options.echo) plan.echoes.push_back(text);
    } else if (value.is_array()) {
      plan.prompts.push_back(parse_token_ids(value, "prompt", model.vocab_size));
      if (plan.options.echo) {
        plan.echoes.push_back(
            model.tokenizer->decode(plan.prompts.back(), plan.options.sampling.skip_special_tokens));
      }
    } else {
      refuse_body("body.prompt", "body.prompt: expected a string, token ids, or a list of either");
    }
    if (plan.prompts.back().empty()) refuse_field("prompt", "the prompt must not be empty");
  };
  const bool many = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (!many) {
    add(*prompt);
  } else {
    if (prompt->size() > kPromptsMax)
      refuse_field("prompt", "at most ", kPromptsMax, " prompts in one request.");
    for (const OrderedJson& value : *prompt) {
      if (value.is_string() != prompt->front().is_string())
        refuse_body("body.prompt", "body.prompt: a list holds texts or lists of token ids, not both");
      add(value);
    }
  }
  plan.output.mode = OutputMode::text;
}

/// A completion that begins inside the reasoning obeys the budget too, and its constraint begins behind it.
void set_completion_reasoning(const ServedModel& model, GenerationPlan& plan) {
  const int64_t budget = plan.options.sampling.reasoning.budget;
  if (plan.endpoint != Endpoint::completions || model.tags == nullptr) return;
  if (budget < 0 && !plan.make_constraint) return;
  for (size_t i = 0; i < plan.prompts.size(); ++i) {
    if (!opens_reasoning(plan.prompts[i], model)) continue;
    ReasoningRules& reasoning = plan.sampling[i].reasoning;
    reasoning.budget = budget;
    set_reasoning(*model.tags, /*begins_inside=*/true, reasoning);
    if (plan.make_constraint) constrain_behind_reasoning(model, reasoning);
  }
}

/// vLLM's rule: choice i of a seeded request draws with seed + i; see Answer.
void finish_plan(const ServedModel& model, GenerationPlan& plan) {
  if (plan.prompts.size() * static_cast<size_t>(plan.options.n) > kChoicesMax) {
    refuse_field("n", "at most ", kChoicesMax, " choices in one request.");
  }
  set_bad_words(*model.tokenizer, plan);
  const int64_t context = model.engine->limits().max_model_len;
  for (size_t i = 0; i < plan.prompts.size(); ++i) {
    std::vector<TokenId>& prompt = plan.prompts[i];
    const bool is_cut = truncate_prompt(plan.options, context, prompt);
    if (is_cut && plan.endpoint == Endpoint::completions && plan.options.echo) {
      plan.echoes[i] = model.tokenizer->decode(prompt, plan.options.sampling.skip_special_tokens);
    }
    limit_tokens(plan.options, plan.endpoint, static_cast<int64_t>(prompt.size()), context, model.defaults);
    limit_logprobs(plan.options, plan.endpoint, static_cast<int64_t>(prompt.size()),
                   static_cast<int64_t>(plan.prompts.size()), model.vocab_size);
    plan.sampling.push_back(plan.options.sampling);
    ReasoningRules& reasoning = plan.sampling.back().reasoning;
    if (reasoning.close < 0) reasoning.budget = -1;
  }
  set_completion_reasoning(model, plan);
  if (!plan.options.sampling.stop.empty()) {
    plan.output.stop = std::make_shared<const StopStrings>(plan.options.sampling.stop);
  }
  plan.output.include_stop_str_in_output = plan.options.include_stop_str_in_output;
  plan.output.skip_special_tokens = plan.options.sampling.skip_special_tokens;
  plan.output.min_tokens = plan.options.sampling.min_tokens;
  plan.output.primary_eos = model.primary_eos;
}

}  // namespace

RequestIds ids_of_request(const HttpRequest& head) {
  return {head.header("X-Request-Id"), head.generated_id};
}

AnswerIdentity identify_answer(GenerationPlan& plan, RequestIds ids, const ApiSettings& settings) {
  std::string id = clean_request_id(ids.header);
  if (id.empty()) id = clean_request_id(plan.options.request_id);
  if (id.empty()) id = ids.generated;
  if (id.empty()) id = random_id();
  plan.id = id;
  plan.model = settings.model_names.front();
  return {std::move(id), plan.model, static_cast<int64_t>(std::time(nullptr))};
}

GenerationPlan plan_body(Endpoint endpoint, const OrderedJson& body, const ServedModel& model,
                         const ApiSettings& settings) {
  GenerationPlan plan;
  plan.endpoint = endpoint;
  if (endpoint == Endpoint::chat && Fields(body).get("messages") == nullptr) {
    refuse_body("body.messages", "body.messages: the field is missing");
  }
  plan.options =
      parse_generation_options(body, endpoint, model.defaults, model.vocab_size, settings.max_logprobs);
  plan.options.include_usage |= settings.force_include_usage && plan.options.stream;
  const Fields fields(body);
  if (fields.get("stream_interval") == nullptr) plan.options.stream_interval = settings.stream_interval;
  if (fields.get("return_tokens_as_token_ids") == nullptr)
    plan.options.tokens_as_ids = settings.tokens_as_ids;
  plan.prompt_tokens_details = settings.prompt_tokens_details;
  plan.answer_metrics = settings.answer_metrics;
  check_model(plan.options.model, settings);
  if (endpoint == Endpoint::chat) {
    plan_chat(body, model, settings, plan);
  } else {
    plan_completion(body, model, plan);
    constrain_text(model, plan);
  }
  finish_plan(model, plan);
  return plan;
}

GenerationPlan plan_generation(Endpoint endpoint, std::string_view body, RequestIds ids,
                               const ServedModel& model, const ApiSettings& settings) {
  GenerationPlan plan = plan_body(endpoint, parse_body(body), model, settings);
  plan.format = make_answer_format(endpoint, identify_answer(plan, ids, settings), settings.reasoning_field);
  return plan;
}

}  // namespace glint
