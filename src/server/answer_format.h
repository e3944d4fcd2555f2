// How answers look as JSON: whole and in stream chunks. The chat and the completions form are here, the
// others in messages_format.h and responses_format.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/generation_options.h"
#include "text/output_stream.h"

namespace glint {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;
  std::optional<int64_t> cached_tokens;  // shown if set
  std::optional<OrderedJson> metrics;    // answer_metrics.h, beside the usage; shown if set
};

/// Which field carries reasoning: vLLM's name, SGLang's, or both.
enum class ReasoningField { reasoning, reasoning_content, both };
/// Throws bad_input.
ReasoningField parse_reasoning_field(std::string_view name);

/// What a request can ask to be told about its prompt.
struct PromptReport {
  std::optional<std::vector<TokenId>> token_ids;  // return_token_ids
  std::optional<std::string> text;                // return_prompt_text
};

/// What one step made visible.
struct StepContent {
  std::span<const OutputDelta> deltas;  // in their order
  const OrderedJson& logprobs;          // of its tokens; null: none
  std::span<const TokenId> token_ids;   // empty: none, or not asked for
};

/// A finished choice.
struct WholeChoice {
  OutputResult result;
  OutputFinish finish;
  std::optional<std::vector<TokenId>> token_ids;  // generated, the ending one included
  PromptReport prompt;
  OrderedJson logprobs;         // see logprobs_json.h; null: none
  OrderedJson prompt_logprobs;  // null: none
};

/// What every chunk of one answer repeats.
struct AnswerIdentity {
  std::string id;         // without the endpoint's prefix
  std::string model;      // the name in answers
  int64_t created_s = 0;  // Unix time
};

/// Writes one answer: streamed in the order of the functions, or whole. Chunks are appended to `out` as whole
/// SSE events. `usage` may be null: then a chunk has none.
class AnswerFormat {
 public:
  AnswerFormat() = default;
  AnswerFormat(const AnswerFormat&) = delete;
  AnswerFormat& operator=(const AnswerFormat&) = delete;
  virtual ~AnswerFormat() = default;

  /// The engine works at the answer. Once, in front of everything else.
  virtual void started() {}
  /// Every call gets the usage so far, asked for or not.
  [[nodiscard]] virtual bool wants_usage() const { return false; }
  /// The first chunk of a choice, with what is reported on its prompt; nothing for completions without such.
  virtual void append_role(std::string& out, int choice, const PromptReport& prompt, const Usage* usage) = 0;
  /// Nothing if the step has nothing to show.
  virtual void append_step(std::string& out, int choice, const StepContent& step, const Usage* usage) = 0;
  virtual void append_finish(std::string& out, int choice, const OutputFinish& finish,
                             const Usage* usage) = 0;
  /// The chunk without choices.
  virtual void append_usage(std::string& out, const Usage& usage) = 0;
  /// Behind everything else.
  virtual void append_end(std::string& out) = 0;
  /// An error after the stream began; it ends the stream.
  virtual void append_error(std::string& out, const ApiError& error) = 0;

  [[nodiscard]] virtual std::string whole(std::span<const WholeChoice> choices, const Usage& usage) = 0;
  /// The answer is an error and nothing else.
  [[nodiscard]] virtual HttpResponse refusal(const ApiError& error);
  /// Further headers of the answer, whole or streamed.
  [[nodiscard]] virtual std::vector<HttpHeader> headers() const { return {}; }
};

std::unique_ptr<AnswerFormat> make_answer_format(Endpoint endpoint, AnswerIdentity identity,
                                                 ReasoningField field);

/// 32 random hex digits.
std::string random_id();

}  // namespace glint
