// Cuts text into the pieces that BPE works on: Split(regex, Isolated) of the tokenizer.json.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace glint {

/// The pattern of the GLM models (and of Llama 3): contractions, words, digit groups of at most three,
/// punctuation, white space.
inline constexpr std::string_view kGlmPattern =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  /// Appends to `ends` the end offset of each piece of `text` (valid UTF-8, below 4 GiB), in order; the
  /// pieces cover the text and none is empty. What the pattern does not match is kept as a piece.
  /// Thread-safe.
  virtual void split(std::string_view text, std::vector<uint32_t>& ends) const = 0;
};

/// The splitter for `pattern`, Oniguruma syntax (Ruby's dialect). kGlmPattern gets a hand-written linear
/// scanner, any other one PCRE2's JIT after translation. Throws unsupported, naming the construct, for what
/// cannot be translated faithfully, bad_input for a pattern that does not compile. `what` names the file in
/// errors.
std::unique_ptr<const PreTokenizer> make_pretokenizer(std::string_view pattern, std::string_view what);

/// The PCRE2 splitter whatever the pattern is; make_pretokenizer's second choice, here for tests of one
/// against the other.
std::unique_ptr<const PreTokenizer> make_regex_pretokenizer(std::string_view pattern, std::string_view what);

}  // namespace glint
