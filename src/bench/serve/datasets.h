// What a benchmark sends: prompts with their lengths, equal to those that vLLM's client makes of the same
// seed and tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/serve/prompt_tokenizer.h"
#include "bench/serve/random_numbers.h"

namespace glint::bench {

struct SampleRequest {
  std::string prompt;
  OrderedJson messages;    // of a chat; null: the prompt is one user message
  int64_t prompt_len = 0;  // tokens
  int64_t output_len = 0;  // tokens asked for
  std::string request_id;
};

struct RandomDataset {
  int64_t num_prompts = 1000;
  int64_t input_len = 1024;
  int64_t output_len = 128;
  double input_range_ratio = 0, output_range_ratio = 0;  // in [0, 1)
  int64_t prefix_len = 0;
  uint64_t seed = 0;
  std::string request_id_prefix;
};

struct PrefixRepetitionDataset {
  int64_t num_prompts = 1000;
  int64_t num_prefixes = 10;
  int64_t prefix_len = 256;
  int64_t suffix_len = 256;
  int64_t output_len = 128;
  uint32_t seed = 0;
  bool shuffle = true;
  std::string request_id_prefix;
};

struct FileDataset {
  enum class Kind { custom, sharegpt, spec_bench };
  Kind kind = Kind::custom;
  std::filesystem::path path;
  int64_t num_prompts = 1000;        // custom: 0 or less takes all
  int64_t output_len = -1;           // custom: -1 takes output_tokens of the row; sharegpt: -1 the answer's
  std::string category;              // spec_bench; empty: all
  bool skip_chat_template = false;   // custom, spec_bench: send the prompt as it is
  bool chat = false;                 // rows with messages go as messages, not as a rendered prompt
  OrderedJson chat_template_kwargs;  // null or an object
  uint64_t seed = 0;
  bool shuffle = true;
  bool oversample = true;
  std::string request_id_prefix;
};

/// A line for standard error about lengths that could not be met.
using DatasetWarning = std::function<void(const std::string&)>;

/// Throws bad_input, with vLLM's words where it has some, for lengths that leave no token.
std::vector<SampleRequest> sample_random(const RandomDataset& dataset, const PromptTokenizer& tokenizer,
                                         const DatasetWarning& warn);

/// Seeds `numpy` first and leaves it behind its draws, as vLLM does: arrivals are drawn from what follows.
std::vector<SampleRequest> sample_prefix_repetition(const PrefixRepetitionDataset& dataset,
                                                    const PromptTokenizer& tokenizer,
                                                    NumpyLegacyRandom& numpy, const DatasetWarning& warn);

/// `tokenizer` may be null for custom rows with a prompt: lengths are then 1, as in vLLM. Throws bad_input
/// with file and line.
std::vector<SampleRequest> sample_file(const FileDataset& dataset, const PromptTokenizer* tokenizer);

/// A text of exactly `target` tokens, if ten rounds of decoding and encoding reach it.
struct FittedPrompt {
  std::string text;
  std::vector<TokenId> ids;  // what the text becomes when it is encoded again
  int64_t mismatch = 0;      // ids.size() - target
};
/// Too long: cut; too short: `draw(count)` ids are appended.
FittedPrompt fit_prompt(const PromptTokenizer& tokenizer, std::vector<TokenId> ids, int64_t target,
                        const std::function<std::vector<int64_t>(size_t)>& draw);

}  // namespace glint::bench
