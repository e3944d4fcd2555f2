#include "server/messages_plan.h"

#include "server/api_error.h"
#include "server/messages_format.h"
#include "server/messages_request.h"
#include "server/request_body.h"
#include "text/request_fields.h"

namespace glint {

namespace {

/// Clients look for these words: they shorten the conversation, or max_tokens, and try again.
std::string context_text(const ContextExceeded& error) {
  if (!error.max_tokens)
    return cat("prompt is too long: ", error.prompt_tokens, " tokens > ", error.limit, " maximum");
  return cat("input length and `max_tokens` exceed context limit: ", error.prompt_tokens, " + ",
             *error.max_tokens, " > ", error.limit, ", decrease input length or `max_tokens` and try again");
}

/// The chat request's form of an answer has other names here.
ApiError in_own_words(ApiError error, const OrderedJson& body) {
  const OrderedJson* config = given(body, "output_config");
  const bool newer = config != nullptr && given(*config, "format") != nullptr;
  const std::string place = newer ? "output_config.format" : "output_format";
  error = with_field(std::move(error), "response_format.json_schema.schema", place + ".schema");
  return with_field(std::move(error), "response_format", place);
}

}  // namespace

GenerationPlan plan_message(std::string_view body_text, std::string_view request_id, const ServedModel& model,
                            const ApiSettings& settings) {
  const OrderedJson body = parse_body(body_text);
  const OrderedJson chat = chat_of_messages(body, MessagesPurpose::generate);
  GenerationPlan plan;
  try {
    plan = plan_body(Endpoint::chat, chat, model, settings);
  } catch (const ContextExceeded& exceeded) {
    ApiError error = exceeded.error();
    error.message = context_text(exceeded);
    throw ApiRefusal(std::move(error));
  } catch (const ApiRefusal& refusal) {
    throw ApiRefusal(in_own_words(refusal.error(), body));
  }
  plan.format = make_messages_format(identify_answer(plan, request_id, settings));
  return plan;
}

OrderedJson count_message_tokens(std::string_view body_text, const ServedModel& model,
                                 const ApiSettings& settings) {
  const OrderedJson body = parse_body(body_text);
  check_model(body, settings);
  const OrderedJson chat = chat_of_messages(body, MessagesPurpose::count_tokens);
  return {
      {"input_tokens", make_chat_prompt(chat, /*add_special_tokens=*/false, model, settings).tokens.size()}};
}

}  // namespace glint
