// Stop strings: where in the decoded text of an answer one of them ends first.
//
// The definition, shared by the engine (which ends the sequence) and the output stream (which cuts the text):
// characters are looked at one by one as they are decoded; the first character that completes a stop string
// ends the answer; if it completes several, the one that stands first in the request's list is reported.
// Characters that belong to the first `min_tokens` tokens complete nothing, but may begin a match. The whole
// decoded text counts: reasoning and tags too.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace glint {

/// A compiled, immutable set of stop strings (an Aho-Corasick automaton over bytes; size linear in the
/// strings).
class StopStrings {
 public:
  /// The strings are not empty and valid UTF-8 (throws bad_input otherwise).
  explicit StopStrings(std::vector<std::string> strings);

  [[nodiscard]] bool empty() const { return strings_.empty(); }
  [[nodiscard]] const std::string& string(size_t index) const { return strings_[index]; }

  /// State after the empty text.
  static constexpr uint32_t kStart = 0;
  /// State after one more byte.
  [[nodiscard]] uint32_t next(uint32_t state, unsigned char byte) const;
  /// Index of the string that ends in this state, -1 if none.
  [[nodiscard]] int32_t match(uint32_t state) const { return nodes_[state].match; }
  /// Bytes at the end of the text that may still become a stop string: what has to be held back.
  [[nodiscard]] uint32_t held_bytes(uint32_t state) const { return nodes_[state].depth; }

 private:
  struct Node {
    uint32_t parent = 0;
    uint32_t fail = 0;   // the longest proper suffix of this node's text that is a node too
    uint32_t depth = 0;  // bytes of this node's text
    int32_t match = -1;
    unsigned char byte = 0;  // the last one of the text
  };
  void insert(int32_t index);
  void link_failures();

  std::vector<std::string> strings_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, uint32_t> children_;  // node * 256 + byte
};

/// Tokens in, the stop string that has been completed out. Cheap enough for the engine's step: no text is
/// kept.
class StopMatcher {
 public:
  StopMatcher(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const StopStrings> strings,
              bool skip_special_tokens, int64_t min_tokens = 0);

  /// The stop string that this token completes. Call it for every sampled token in order, but not for a token
  /// that ends the sequence by its id: such a token's text is no part of the answer. Not to be called again
  /// after a match.
  [[nodiscard]] std::optional<std::string> push(TokenId token);

 private:
  std::shared_ptr<const StopStrings> strings_;
  StreamDetokenizer detokenizer_;
  int64_t min_tokens_;
  int64_t tokens_ = 0;
  uint32_t state_ = StopStrings::kStart;
};

}  // namespace glint
