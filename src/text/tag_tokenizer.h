// A vocabulary made up on the spot, for looking at answers without a model folder: GLM's added tokens with
// their published ids, and any other piece of text as a token of its own.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace glint {

class TagTokenizer final : public Tokenizer {
 public:
  /// The id of a piece; a new one if it has not been seen. `bytes` may be a part of a UTF-8 character. Never
  /// a tag's id.
  TokenId piece(std::string_view bytes);

  /// Tags become their ids; the text between them becomes one piece, if that piece is known, and is left out
  /// otherwise.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const override;
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  [[nodiscard]] std::string_view token_bytes(TokenId id) const override;
  [[nodiscard]] bool is_special(TokenId id) const override;
  [[nodiscard]] bool is_added(TokenId id) const override;
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view content) const override;
  [[nodiscard]] TokenId size() const override;
  [[nodiscard]] bool exists(TokenId id) const override { return !token_bytes(id).empty(); }

  /// A GLM tag that `text` starts with, and its length; nothing if there is none.
  struct Tag {
    TokenId id;
    size_t bytes;
  };
  [[nodiscard]] static std::optional<Tag> tag_at(std::string_view text);

 private:
  std::vector<std::string> pieces_;  // by id
  std::map<std::string, TokenId, std::less<>> pieces_by_bytes_;
};

}  // namespace glint
