// Added tokens of a tokenizer.json: found in the raw text before anything else looks at it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace glint {

/// One entry of `added_tokens`.
struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool single_word = false;  // not recognised next to a word character
  bool lstrip = false;       // swallows the white space before it
  bool rstrip = false;       // swallows the white space behind it
  bool normalized = false;   // looked for in a second pass, in what the first one left
  bool special = false;      // may be left out when decoding; no effect on encoding
};

/// A stretch of text: an added token, or (id < 0) text for the next stage.
struct TextSplit {
  TokenId id;
  std::string_view text;
};

/// Finds the tokens of one pass: at the leftmost place where one starts, the longest that starts there.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  /// Contents must be distinct and not empty.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  [[nodiscard]] bool empty() const { return tokens_.empty(); }

  /// Appends the splits of `text` in order, as the library's find_matches: a match that single_word forbids
  /// is skipped whole, and lstrip never reaches back into an earlier match.
  void split(std::string_view text, std::vector<TextSplit>& out) const;

 private:
  /// The longest token that text begins with at `at`, or nothing.
  [[nodiscard]] const AddedToken* longest_at(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;    // sorted by content
  uint32_t first_of_byte_[257] = {};  // tokens_[first_of_byte_[b], first_of_byte_[b + 1]) begin with byte b
};

}  // namespace glint
