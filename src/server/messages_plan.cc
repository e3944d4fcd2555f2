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

GenerationPlan plan_chat_body(const OrderedJson& chat, const ServedModel& model,
                              const ApiSettings& settings) {
  try {
    return plan_body(Endpoint::chat, chat, model, settings);
  } catch (const ContextExceeded& exceeded) {
    ApiError error = exceeded.error();
    error.message = context_text(exceeded);
    throw ApiRefusal(std::move(error));
  }
}

}  // namespace

GenerationPlan plan_message(std::string_view body_text, RequestIds ids, const ServedModel& model,
                            const ApiSettings& settings) {
  const OrderedJson body = parse_body(body_text);
  const MessagesRequest request = read_messages_request(body, MessagesPurpose::generate);
  GenerationPlan plan =
      in_own_words(request.names, [&] { return plan_chat_body(request.chat, model, settings); });
  plan.names = request.names;
  plan.format = make_messages_format(identify_answer(plan, ids, settings));
  return plan;
}

OrderedJson count_message_tokens(std::string_view body_text, const ServedModel& model,
                                 const ApiSettings& settings) {
  const OrderedJson body = parse_body(body_text);
  check_model(body, settings);
  const MessagesRequest request = read_messages_request(body, MessagesPurpose::count_tokens);
  const ChatPrompt prompt = in_own_words(request.names, [&] {
    return make_chat_prompt(request.chat, /*add_special_tokens=*/false, model, settings);
  });
  return {{"input_tokens", prompt.tokens.size()}};
}

}  // namespace glint
