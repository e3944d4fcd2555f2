#include "text/grammar/token_table.h"

#include <algorithm>

namespace glint {

TokenTable::TokenTable(std::shared_ptr<const Tokenizer> tokenizer, std::vector<TokenId> eos,
                       int64_t vocab_size)
    : tokenizer_(std::move(tokenizer)), eos_(std::move(eos)), vocab_size_(vocab_size), ordinary_(vocab_size) {
  const auto end = static_cast<TokenId>(std::min<int64_t>(tokenizer_->size(), vocab_size));
  by_text_.reserve(static_cast<size_t>(end));
  for (TokenId id = 0; id < end; ++id) {
    if (!tokenizer_->exists(id) || tokenizer_->is_added(id) || tokenizer_->is_special(id)) continue;
    if (std::find(eos_.begin(), eos_.end(), id) != eos_.end()) continue;
    const std::string_view bytes = tokenizer_->token_bytes(id);
    if (bytes.empty()) continue;
    ordinary_.set(id);
    by_text_[bytes].push_back(id);
    if (bytes.find_first_not_of(" \n\r\t") == std::string_view::npos) blanks_.push_back(id);
    text_bytes_max_ = std::max(text_bytes_max_, bytes.size());
  }
}

std::span<const TokenId> TokenTable::of_text(std::string_view bytes) const {
  const auto found = by_text_.find(bytes);
  return found == by_text_.end() ? std::span<const TokenId>() : std::span<const TokenId>(found->second);
}

}  // namespace glint
