// POST /v1/responses (OpenAI) as a chat request: the same prompt, sampling and checks serve both.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/json.h"
#include "server/field_names.h"
#include "server/response_store.h"

namespace glint {

struct ResponsesRequest {
  OrderedJson chat;   // the chat request that means the same
  OrderedJson echo;   // what the response repeats of the request, by the names of the response
  std::string turns;  // the chat messages without the instructions, as JSON text: what a following response
                      // goes on from
  bool stream = false;
  bool store = true;
  bool background = false;
  FieldNames names;                       // what the fields of `chat` are called in the request
  std::shared_ptr<void> claim = nullptr;  // of the id, see ResponseStore::claim
  std::map<std::string, std::pair<std::string, std::string>> spaces;  // "ns__name": {"ns", "name"}
};

/// Throws RequestError, with the dotted path in the Responses request, for what no chat request can mean;
/// ApiRefusal (404) for a previous_response_id that is not stored. What happens to each part:
///  - instructions is the first system message; those of a previous response do not count, its messages do.
///  - tools: function tools, and namespaces of them, whose names become ns__name. OpenAI's own tools are
///  refused.
///  - reasoning.effort is reasoning_effort, max_output_tokens max_completion_tokens, text.format a
///  response_format,
///    truncation "auto" truncate_prompt_tokens -1.
///  - prompt, conversation and include of logprobs are refused; background needs store and no stream.
///  - Sampling fields that vLLM adds are passed on as they are; other fields are dropped.
ResponsesRequest read_responses_request(const OrderedJson& body, const ResponseStore& store);

}  // namespace glint
