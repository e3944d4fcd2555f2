// Answers of POST /v1/messages, in Anthropic's form.
#pragma once

#include "server/answer_format.h"

namespace glint {

/// A message of content blocks (thinking, text, tool_use), whole or as events "event: NAME\ndata: {...}\n\n":
/// message_start, then for each block content_block_start, deltas to it and content_block_stop, at last
/// message_delta and message_stop. One block is open at a time. A thinking block ends with a signature, which
/// vouches for nothing: clients demand one.
///
/// stop_reason: stop_sequence for a matched stop string, max_tokens, tool_use if the turn ended with a call
/// (also with one that tool_choice named), null for an aborted answer, else end_turn.
std::unique_ptr<AnswerFormat> make_messages_format(AnswerIdentity identity);

}  // namespace glint
