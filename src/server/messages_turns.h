// The messages of an Anthropic request as chat messages. The rules stand in messages_request.h.
#pragma once

#include <string>

#include "base/json.h"

namespace glint {

/// The text of a block {"type": "text", "text": ...}. Throws RequestError for any other.
const std::string& messages_text_block(const OrderedJson& block, const std::string& param);

/// Sets chat["messages"] from body["messages"], the system message (`system` and what the list adds) in front
/// if it has any text. If the last turn is the assistant's, sets continue_final_message and
/// add_generation_prompt.
void read_messages_turns(const OrderedJson& body, std::string system, OrderedJson& chat);

}  // namespace glint
