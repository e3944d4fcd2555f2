// How answers look as JSON: the chat and the completions form, whole and in stream chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "server/generation_options.h"
#include "text/output_stream.h"

namespace glint {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;
  std::optional<int64_t> cached_tokens;  // shown if set
};

/// Which field carries reasoning: vLLM's name, SGLang's, or both.
enum class ReasoningField { reasoning, reasoning_content, both };
/// Throws bad_input.
ReasoningField parse_reasoning_field(std::string_view name);

/// A finished choice.
struct WholeChoice {
  OutputResult result;
  OutputFinish finish;
  OrderedJson logprobs;         // see logprobs_json.h; null: none
  OrderedJson prompt_logprobs;  // null: none
};

/// What every chunk of one answer repeats.
struct AnswerIdentity {
  std::string id;         // without the endpoint's prefix
  std::string model;      // the name in answers
  int64_t created_s = 0;  // Unix time
};

/// Chunks are appended to `out` as whole SSE events ("data: {...}\n\n"). `usage` may be null: then a chunk
/// has none.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  /// The first chunk of a choice; nothing for completions.
  virtual void append_role(std::string& out, int choice, const Usage* usage) const = 0;
  /// `logprobs` may be null.
  virtual void append_delta(std::string& out, int choice, const OutputChunk& chunk,
                            const OrderedJson& logprobs, const Usage* usage) const = 0;
  virtual void append_finish(std::string& out, int choice, const OutputFinish& finish,
                             const Usage* usage) const = 0;
  /// The chunk without choices.
  virtual void append_usage(std::string& out, const Usage& usage) const = 0;
  [[nodiscard]] virtual std::string whole(std::span<const WholeChoice> choices, const Usage& usage) const = 0;
};

std::unique_ptr<AnswerFormat> make_answer_format(Endpoint endpoint, AnswerIdentity identity,
                                                 ReasoningField field);

/// 32 random hex digits.
std::string random_id();

}  // namespace glint
