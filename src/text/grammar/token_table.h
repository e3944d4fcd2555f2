// A model's vocabulary as constraints need it: what each id's bytes are, and sets of ids as bit masks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace glint {

/// A set of ids: bit id % 32 of word id / 32.
class TokenMask {
 public:
  TokenMask() = default;
  explicit TokenMask(int64_t vocab_size) : words_(static_cast<size_t>((vocab_size + 31) / 32)) {}
  void set(TokenId id) { words_[static_cast<size_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32); }
  void reset(TokenId id) {
    words_[static_cast<size_t>(id) / 32] &= ~(1U << (static_cast<uint32_t>(id) % 32));
  }
  void clear() { words_.assign(words_.size(), 0); }
  [[nodiscard]] bool holds(TokenId id) const {
    return (words_[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32) & 1U) != 0;
  }
  [[nodiscard]] std::span<const uint32_t> words() const { return words_; }
  [[nodiscard]] std::span<uint32_t> words() { return words_; }

 private:
  std::vector<uint32_t> words_;
};

/// Immutable; one for each served model. Takes a few milliseconds and some MB to make.
class TokenTable {
 public:
  /// `eos`: the ids that end an answer. Ids of `vocab_size` or more do not exist.
  TokenTable(std::shared_ptr<const Tokenizer> tokenizer, std::vector<TokenId> eos, int64_t vocab_size);

  [[nodiscard]] int64_t vocab_size() const { return vocab_size_; }
  [[nodiscard]] const std::vector<TokenId>& eos() const { return eos_; }
  /// Tokens that are text: not added, not empty.
  [[nodiscard]] const TokenMask& ordinary() const { return ordinary_; }
  /// Their bytes, "" for every other id.
  [[nodiscard]] std::string_view text(TokenId id) const {
    return ordinary_.holds(id) ? tokenizer_->token_bytes(id) : std::string_view();
  }
  /// The ordinary tokens that are exactly these bytes (mostly one or none).
  [[nodiscard]] std::span<const TokenId> of_text(std::string_view bytes) const;
  /// Those that consist of JSON's white space alone.
  [[nodiscard]] std::span<const TokenId> blanks() const { return blanks_; }
  [[nodiscard]] size_t text_bytes_max() const { return text_bytes_max_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<TokenId> eos_;
  int64_t vocab_size_;
  TokenMask ordinary_;
  std::vector<TokenId> blanks_;
  size_t text_bytes_max_ = 0;
  std::unordered_map<std::string_view, std::vector<TokenId>> by_text_;
};

}  // namespace glint
