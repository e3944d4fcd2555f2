// Answers of POST /v1/responses, in OpenAI's form.
#pragma once

#include <memory>

#include "server/answer_format.h"
#include "server/response_store.h"
#include "server/responses_request.h"

namespace glint {

/// A response object with output items (reasoning, message, function_call), whole or as events
/// "event: TYPE\ndata: {"type": TYPE, "sequence_number": N, ...}\n\n": response.created and
/// response.in_progress, then for each item response.output_item.added, its deltas and its end, at last
/// response.completed, or response.incomplete for an answer that max_output_tokens cut. An error after the
/// stream began is an event "error" and response.failed.
///
/// status: completed, incomplete (incomplete_details.reason max_output_tokens), cancelled for an aborted
/// answer, failed. With request.store the finished response goes into `store`.
std::unique_ptr<AnswerFormat> make_responses_format(AnswerIdentity identity, ResponsesRequest request,
                                                    std::shared_ptr<ResponseStore> store);

/// The response object of a background answer that has just been accepted, as JSON text.
std::string queued_response(const AnswerIdentity& identity, const ResponsesRequest& request);

}  // namespace glint
