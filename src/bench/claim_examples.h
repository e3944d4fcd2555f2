// What `glint verify` asks a model: held-out examples with their answers, and what other implementations made
// of some texts. Written by tools/nano/make_claims.py, make_greedy.py and make_reference.py.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace glint::bench {

inline constexpr std::array<std::string_view, 3> kEfforts{"low", "high", "max"};

/// One line of claims.jsonl.
struct ClaimExample {
  std::string claim;    // "arithmetic", "lookup", "lookup_1500", "tool_call", "tool_answer", "copy" or "json"
  std::string task;     // how the answer is judged; see claim_judge.h
  size_t effort = 0;    // in kEfforts
  std::string request;  // the body of the chat request, without a model's name
  Json answer;
};

/// Those of `claims` (empty: all), at most `examples_max` of each (0: all; the efforts come in turn). Throws
/// bad_input naming the line.
std::vector<ClaimExample> read_claim_examples(const std::filesystem::path& path,
                                              const std::vector<std::string>& claims, int64_t examples_max);

/// One line of greedy.jsonl: what the model says after `prompt` when the most likely token is always taken.
struct GreedyText {
  std::string prompt, text;
  int64_t tokens = 0;  // of the text, with the ending one if it ended
};

/// `count` of them, evenly spread over the file (0: all).
std::vector<GreedyText> read_greedy_texts(const std::filesystem::path& path, int64_t count);

/// What one line of reference.jsonl tells of a greedy text that ends by itself.
struct ReferenceText {
  GreedyText text;
  std::vector<float> logits;  // [text.tokens] transformers' logit of each of its tokens
  int64_t steps = 0;          // verified steps of five drafts that the text takes behind its first token
};

/// `count` of them, evenly spread over the file (0: all); their texts are lines of `greedy`.
std::vector<ReferenceText> read_reference_texts(const std::filesystem::path& path,
                                                const std::filesystem::path& greedy, int64_t count);

}  // namespace glint::bench
