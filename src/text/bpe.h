// Byte-pair merging over a vocabulary of byte strings, as the Rust `tokenizers` library does it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace glint {

/// Token strings by id and ids by string. Strings are stored back to back.
class TokenTable {
 public:
  /// Ids must lie below this, so that a hostile file cannot ask for gigabytes.
  static constexpr TokenId kIdsMax = 1 << 22;

  /// Adds a token; id in [0, kIdsMax). False if the id or the string is already there.
  bool add(TokenId id, std::string_view bytes);
  /// Adds a token that bytes() knows and find() never returns. False if the id is already there.
  bool add_hidden(TokenId id, std::string_view bytes);
  /// The bytes of `id`, empty if there is no such token.
  [[nodiscard]] std::string_view bytes(TokenId id) const {
    if (!exists(id)) return {};
    const Span& span = spans_[static_cast<size_t>(id)];
    return std::string_view(arena_).substr(span.offset, span.size);
  }
  [[nodiscard]] bool exists(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < spans_.size() && spans_[static_cast<size_t>(id)].used;
  }
  /// The id of a byte string, -1 if there is none.
  [[nodiscard]] TokenId find(std::string_view bytes) const;
  /// One more than the highest id.
  [[nodiscard]] TokenId size() const { return static_cast<TokenId>(spans_.size()); }
  /// How many tokens there are, the hidden ones included.
  [[nodiscard]] size_t tokens() const { return tokens_; }

 private:
  struct Span {
    uint32_t offset = 0;
    uint32_t size : 31 = 0;
    uint32_t used : 1 = 0;
  };
  struct Slot {
    TokenId id = -1;
    uint32_t tag = 0;  // more bits of the hash: most strangers are told apart without touching their bytes
  };
  void store(TokenId id, std::string_view bytes);
  void grow();
  [[nodiscard]] size_t slot_of(std::string_view bytes, uint64_t hash) const;

  std::string arena_;
  std::vector<Span> spans_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  size_t tokens_ = 0;
  size_t used_slots_ = 0;
};

/// What a pair of neighbours merges into: lower ranks go first.
struct Merge {
  uint32_t rank = UINT32_MAX;  // UINT32_MAX: the pair does not merge
  TokenId id = -1;
};

/// Pairs of ids with their merges.
class MergeTable {
 public:
  void reserve(size_t merges);
  /// A pair that comes again replaces its earlier merge, as in the library.
  void add(TokenId left, TokenId right, Merge merge);
  [[nodiscard]] Merge find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };
  static constexpr uint64_t kFree = UINT64_MAX;
  [[nodiscard]] size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

/// The model. All members are immutable after the load.
class BpeModel {
 public:
  /// Storage that encode() reuses from piece to piece; one per thread.
  struct Scratch {
    std::vector<TokenId> ids;
    std::vector<uint32_t> ranks, previous, next;
    std::vector<uint64_t> heap;
  };

  /// Keys are bytes, not token strings. `ignore_merges`: a piece that is a token as a whole is that token.
  BpeModel(TokenTable vocabulary, MergeTable merges, bool ignore_merges);

  /// Appends the ids of one piece. Bytes without a token of their own are left out, as in the library without
  /// an unknown token. O(n log n) for n bytes.
  void encode(std::string_view piece, std::vector<TokenId>& out, Scratch& scratch) const;

  [[nodiscard]] const TokenTable& vocabulary() const { return vocabulary_; }

 private:
  void merge_short(std::vector<TokenId>& out, Scratch& scratch) const;
  void merge_long(std::vector<TokenId>& out, Scratch& scratch) const;

  TokenTable vocabulary_;
  MergeTable merges_;
  bool ignore_merges_;
  TokenId byte_ids_[256] = {};
};

}  // namespace glint
