// GLM's output tags. They are recognised by token id alone; the same characters made of ordinary tokens are
// text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"

namespace glint {

enum class OutputTag : uint8_t {
  think_open,
  think_close,
  call_open,
  call_close,
  key_open,
  key_close,
  value_open,
  value_close,
  none,  // no tag: an ordinary token
};
inline constexpr size_t kOutputTags = 8;

/// "<think>" and so on; "" for none.
std::string_view tag_text(OutputTag tag);

/// The ids of the tags, looked up by content.
class OutputTags {
 public:
  /// Throws bad_input, naming the tag, if the tokenizer lacks one as an added token.
  explicit OutputTags(const Tokenizer& tokenizer);

  [[nodiscard]] OutputTag of(TokenId id) const;
  [[nodiscard]] TokenId id(OutputTag tag) const { return ids_[static_cast<size_t>(tag)]; }

 private:
  std::array<TokenId, kOutputTags> ids_{};
  TokenId lowest_ = 0;
  TokenId highest_ = 0;
};

}  // namespace glint
