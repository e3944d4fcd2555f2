#include "server/tokenize.h"

#include "server/api_error.h"
#include "server/fields.h"
#include "server/request_body.h"
#include "text/byte_map.h"

namespace glint {

namespace {

std::string token_string(const Tokenizer& tokenizer, TokenId id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  return tokenizer.is_added(id) ? std::string(bytes) : bytes_to_token_string(bytes);
}

}  // namespace

OrderedJson tokenize(std::string_view body_text, const ServedModel& model, const ApiSettings& settings) {
  const OrderedJson body = parse_body(body_text);
  check_model(body, settings);
  Fields fields(body);
  const bool is_chat = fields.get("messages") != nullptr;
  const bool add_special = fields.boolean("add_special_tokens").value_or(!is_chat);
  const bool with_strings = fields.boolean("return_token_strs").value_or(false);
  const auto prompt = is_chat ? std::nullopt : fields.text("prompt");
  fields.check();
  if (!is_chat && !prompt) refuse_body("body.prompt", "body.prompt: expected a prompt, or messages");
  const std::vector<TokenId> tokens = is_chat ? make_chat_prompt(body, add_special, model, settings).tokens
                                              : model.tokenizer->encode(*prompt, add_special);
  OrderedJson strings;
  if (with_strings) {
    strings = OrderedJson::array();
    for (const TokenId id : tokens) strings.push_back(token_string(*model.tokenizer, id));
  }
  OrderedJson answer;
  answer["count"] = tokens.size();
  answer["max_model_len"] = model.engine->limits().max_model_len;
  answer["tokens"] = tokens;
  answer["token_strs"] = std::move(strings);
  return answer;
}

OrderedJson detokenize(std::string_view body_text, const ServedModel& model, const ApiSettings& settings) {
  const OrderedJson body = parse_body(body_text);
  check_model(body, settings);
  const auto tokens = body.find("tokens");
  if (tokens == body.end() || !tokens->is_array()) {
    refuse_body("body.tokens", "body.tokens: expected a list of token ids");
  }
  const std::vector<TokenId> ids = parse_token_ids(*tokens, "tokens", model.vocab_size);
  return {{"prompt", model.tokenizer->decode(ids, /*skip_special_tokens=*/false)}};
}

}  // namespace glint
