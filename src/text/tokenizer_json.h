// What a tokenizer.json says, checked: everything that the encoder and decoder need, nothing that they cannot
// do.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"

namespace glint {

struct TokenizerSpec {
  /// In `post_template`: here go the ids of the text.
  static constexpr TokenId kText = -1;

  TokenTable vocabulary;  // the model's; keys are bytes, tokens that are no bytes are hidden
  MergeTable merges;
  bool ignore_merges = false;
  std::string pattern;  // of the Split pre-tokenizer
  std::vector<AddedToken> added;
  std::vector<TokenId> post_template = {kText};  // what add_special_tokens makes of the text
  /// Vocabulary entries with a character outside the byte map, by content.
  std::unordered_map<std::string, TokenId> unmapped;

  /// The id of a vocabulary entry by its token string, -1 if there is none.
  [[nodiscard]] TokenId vocabulary_id(std::string_view token) const;
};

/// Parses and checks the text of a tokenizer.json; `what` names it in errors. Throws bad_input with the key
/// for what is wrong, unsupported for what the library knows and this program does not.
TokenizerSpec parse_tokenizer_json(std::string_view json, std::string_view what);

}  // namespace glint
