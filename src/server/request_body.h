// What every request with a JSON body begins with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/generation_plan.h"

namespace glint {

/// The body as an object, with limits that nothing which walks the tree can exceed. Throws ApiRefusal (400
/// "Bad Request").
OrderedJson parse_body(std::string_view text);

/// Throws ApiRefusal (404) unless `name` is empty or one that the server answers to.
void check_model(const std::string& name, const ApiSettings& settings);
/// The same for the field "model" of `body`; a wrong type is a 400.
void check_model(const OrderedJson& body, const ApiSettings& settings);

/// Only what is harmless in headers, logs and JSON; at most 128 bytes.
std::string clean_request_id(std::string_view id);

/// A chat request on its way to ids.
struct ChatPrompt {
  ChatRequest request;
  RenderedChat rendered;
  std::vector<TokenId> tokens;
};

/// Reads, checks and renders the chat request `body`. Throws ApiRefusal or RequestError.
ChatPrompt make_chat_prompt(const OrderedJson& body, bool add_special_tokens, const ServedModel& model,
                            const ApiSettings& settings);

/// The ids of a list of numbers, each below `vocab_size`. Throws ApiRefusal naming `field`.
std::vector<TokenId> parse_token_ids(const OrderedJson& list, const std::string& field, int64_t vocab_size);

}  // namespace glint
