// The byte-level BPE tokenizer of a tokenizer.json, equal to the Rust `tokenizers` library id for id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

using TokenId = int32_t;

class Tokenizer {
 public:
  /// Loads a tokenizer.json (or the folder that holds one). Throws bad_input with the key that is wrong,
  /// unsupported for a structure that is legal elsewhere but not implemented here (never a silent
  /// approximation).
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& path);
  static std::shared_ptr<const Tokenizer> parse(std::string_view json, std::string_view what);
  virtual ~Tokenizer() = default;

  /// Ids of `text` (valid UTF-8; throws bad_input otherwise). Added tokens are recognised in the raw text
  /// first. With `add_special_tokens` the post-processor of the file, if any, is applied. Thread-safe, linear
  /// in the text.
  [[nodiscard]] virtual std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const = 0;

  /// The text of `ids`: their bytes joined, every maximal ill-formed subsequence replaced by one U+FFFD.
  /// Special tokens are left out if asked. Unknown ids contribute nothing.
  [[nodiscard]] virtual std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const = 0;

  /// The bytes that one id stands for (empty for an unknown id); may be a part of a UTF-8 character.
  [[nodiscard]] virtual std::string_view token_bytes(TokenId id) const = 0;

  [[nodiscard]] virtual bool is_special(TokenId id) const = 0;
  [[nodiscard]] virtual bool is_added(TokenId id) const = 0;
  /// The id of an added token or vocabulary entry by its content ("<think>"), if there is one.
  [[nodiscard]] virtual std::optional<TokenId> id_of(std::string_view content) const = 0;
  /// Base vocabulary plus added tokens: one more than the highest id. Ids at or above it must never be
  /// sampled.
  [[nodiscard]] virtual TokenId size() const = 0;
  /// Tokens of the base vocabulary: what are only added tokens does not count.
  [[nodiscard]] virtual TokenId base_size() const { return size(); }
  /// True if the id stands for a token (there may be holes).
  [[nodiscard]] virtual bool exists(TokenId id) const = 0;
};

/// Turns a token stream into text that is always complete UTF-8: bytes of an unfinished character are held
/// back. Bytes that can no longer become a character are emitted as U+FFFD at once; what is unfinished at the
/// end is dropped.
class StreamDetokenizer {
 public:
  StreamDetokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens);
  /// The text that `id` completes (may be empty).
  [[nodiscard]] std::string push(TokenId id);

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  std::string held_;
};

}  // namespace glint
