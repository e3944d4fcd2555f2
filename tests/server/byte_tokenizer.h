// One id per byte, and GLM's added tokens with their published ids: small, complete and easy to write scripts
// with.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace glint {

inline constexpr TokenId kEndOfText = 154820;
inline constexpr TokenId kUser = 154827;
inline constexpr TokenId kObservation = 154829;

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer();
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const override;
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  [[nodiscard]] std::string_view token_bytes(TokenId id) const override;
  [[nodiscard]] bool is_special(TokenId id) const override;
  [[nodiscard]] bool is_added(TokenId id) const override;
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view content) const override;
  [[nodiscard]] TokenId size() const override { return 154856; }
  [[nodiscard]] bool exists(TokenId id) const override { return !token_bytes(id).empty(); }

 private:
  std::string bytes_;
};

/// The ids of `text`, tags as their atomic tokens.
std::vector<TokenId> ids_of(std::string_view text);

}  // namespace glint
