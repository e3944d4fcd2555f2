// Input and output items of the Responses API as chat messages.
#pragma once

#include <string>

#include "base/json.h"
#include "server/field_names.h"

namespace glint {

/// "ns__name": how a tool of a namespace is called in the prompt.
std::string flat_tool_name(const std::string& space, const std::string& name);

/// Appends what `input` (a string or a list of items) means to the chat messages `messages`. Consecutive
/// reasoning, message and function_call items of the assistant become one turn, as the chat template needs
/// it; function_call_output becomes a tool message. Throws RequestError for items that the model cannot read,
/// naming their place in the request. `names` learns where the calls came from, for a chat request that has
/// `in_front` messages in front of these.
void append_input(const OrderedJson& input, size_t in_front, OrderedJson& messages, FieldNames& names);

/// What an answer adds to the messages: the same turn that its items would become if a client sent them back.
OrderedJson assistant_turn(const std::string& reasoning, const std::string& content,
                           const OrderedJson& tool_calls);

}  // namespace glint
