// The vocabulary of stand-in tokenizers: merges that make sense on English, code and the characters of many
// scripts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace glint {

struct StandinVocabulary {
  std::vector<std::string> tokens;  // bytes; the first 256 are the single bytes in order
  /// tokens[256 + i] is made of the tokens with these two indices, both below 256 + i.
  std::vector<std::pair<uint32_t, uint32_t>> merges;
};

/// Exactly `tokens` >= 256 of them, all different. Deterministic; a larger vocabulary begins with the smaller
/// one.
StandinVocabulary make_standin_vocabulary(size_t tokens);

/// The text that the first merges are learned from.
std::string_view standin_training_text();

}  // namespace glint
