// POST /v1/messages (Anthropic) as a chat request: the same prompt, sampling and checks serve both.
#pragma once

#include "base/json.h"
#include "server/field_names.h"

namespace glint {

enum class MessagesPurpose { generate, count_tokens };

struct MessagesRequest {
  OrderedJson chat;  // the chat request that means the same
  FieldNames names;  // what its fields are called in the request
};

/// The chat request that means what `body` means. Throws RequestError, with the dotted path in Anthropic's
/// request, for what no chat request can mean. max_tokens is demanded for generating only. What happens to
/// each part:
///  - system (text or text blocks) is concatenated into one system message; blocks that begin with
///    x-anthropic-billing-header are dropped (they differ per request and would keep prompts from sharing
///    their beginning). System messages inside the list join it, each on a line of its own.
///  - user: tool_result blocks become tool messages in front of the rest of the turn, their text parts joined
///  by a newline;
///    tool_reference blocks become a list of references. Text parts are joined without separator; documents
///    of plain text count as text.
///  - assistant: thinking becomes the turn's reasoning, redacted_thinking is dropped, tool_use becomes a
///  call. A final
///    assistant turn is continued, as Anthropic's API does.
///  - tools: only those with an input_schema; tools of Anthropic's own are refused.
///  - tool_choice: any is required; disable_parallel_tool_use is parallel_tool_calls false.
///  - thinking: budget_tokens is thinking_token_budget; disabled means low effort (GLM-5.3 always thinks;
///  GLM-5.2 does not
///    think then) and no thinking blocks; display "omitted" means no thinking blocks.
///  - output_config: effort is reasoning_effort, format a response_format of type json_schema (output_format
///  as well).
///  - Sampling fields that vLLM adds to chat requests are passed on as they are; other fields are dropped.
MessagesRequest read_messages_request(const OrderedJson& body, MessagesPurpose purpose);

}  // namespace glint
