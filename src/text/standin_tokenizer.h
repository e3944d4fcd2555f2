// A tokenizer for stand-in checkpoints: the structure of the real one, a vocabulary made here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/config.h"

namespace glint {

/// Writes tokenizer.json, tokenizer_config.json and chat_template.jinja into `folder`, which must exist, for
/// the vocab_size and the three eos ids of `config`. The same input gives the same bytes. Throws as
/// standin_tokenizer_json, and io.
void write_standin_tokenizer(const ModelConfig& config, const std::filesystem::path& folder);

/// The text of the tokenizer.json. Every id below `vocab_size` is a token:
/// - the three of `eos_token_id` are <|endoftext|>, <|user|> and <|observation|>, in this order;
/// - the other 33 added tokens of GLM-5.3 take the highest ids that are left, in the order of the real table;
/// - the 256 single bytes take the lowest ids that are left, then come merges: first those learned from a
/// small text,
///   then digit groups, characters of many scripts and invented words until the ids are used up.
/// The added tokens stand in the model's vocabulary too, because the library gives others the next free id.
/// Throws bad_input if there are not three distinct eos ids below vocab_size, if vocab_size is under
/// kStandinVocabularyMin or above kStandinVocabularyMax.
std::string standin_tokenizer_json(int64_t vocab_size, std::span<const int32_t> eos_token_id);

inline constexpr int64_t kStandinVocabularyMin = 256 + 36;
inline constexpr int64_t kStandinVocabularyMax = 1'000'000;

/// The text of the chat_template.jinja; ChatTemplate recognises it as GLM-5.3.
std::string_view standin_chat_template();

}  // namespace glint
