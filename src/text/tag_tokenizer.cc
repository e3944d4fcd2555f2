#include "text/tag_tokenizer.h"

#include <array>

#include "base/utf8.h"

namespace glint {

namespace {

struct AddedName {
  std::string_view text;
  TokenId id;
  bool is_special;
};

// Ids as published for the GLM-5 vocabulary. The tags are added but not special; the control tokens are both.
constexpr std::array kAdded = {AddedName{"<|endoftext|>", 154820, true},
                               AddedName{"[gMASK]", 154822, true},
                               AddedName{"<sop>", 154824, true},
                               AddedName{"<|system|>", 154826, true},
                               AddedName{"<|user|>", 154827, true},
                               AddedName{"<|assistant|>", 154828, true},
                               AddedName{"<|observation|>", 154829, true},
                               AddedName{"<think>", 154841, false},
                               AddedName{"</think>", 154842, false},
                               AddedName{"<tool_call>", 154843, false},
                               AddedName{"</tool_call>", 154844, false},
                               AddedName{"<tool_response>", 154845, false},
                               AddedName{"</tool_response>", 154846, false},
                               AddedName{"<arg_key>", 154847, false},
                               AddedName{"</arg_key>", 154848, false},
                               AddedName{"<arg_value>", 154849, false},
                               AddedName{"</arg_value>", 154850, false}};
constexpr TokenId kPiecesFrom = 154856;

}  // namespace

std::optional<TagTokenizer::Tag> TagTokenizer::tag_at(std::string_view text) {
  for (const AddedName& name : kAdded) {
    if (text.starts_with(name.text)) return Tag{name.id, name.text.size()};
  }
  return {};
}

TokenId TagTokenizer::piece(std::string_view bytes) {
  const auto found = pieces_by_bytes_.find(bytes);
  if (found != pieces_by_bytes_.end()) return found->second;
  const auto id = static_cast<TokenId>(kPiecesFrom + pieces_.size());
  pieces_.emplace_back(bytes);
  pieces_by_bytes_.emplace(bytes, id);
  return id;
}

std::vector<TokenId> TagTokenizer::encode(std::string_view text, bool /*add_special_tokens*/) const {
  std::vector<TokenId> out;
  size_t start = 0;
  const auto flush = [&](size_t end) {
    const auto found = pieces_by_bytes_.find(text.substr(start, end - start));
    if (found != pieces_by_bytes_.end()) out.push_back(found->second);
  };
  for (size_t at = 0; at < text.size();) {
    const std::optional<Tag> tag = tag_at(text.substr(at));
    if (!tag) {
      ++at;
      continue;
    }
    flush(at);
    out.push_back(tag->id);
    start = at += tag->bytes;
  }
  flush(text.size());
  return out;
}

std::string TagTokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (!skip_special_tokens || !is_special(id)) bytes += token_bytes(id);
  }
  return utf8_lossy(bytes);
}

std::string_view TagTokenizer::token_bytes(TokenId id) const {
  if (id >= kPiecesFrom) {
    const auto at = static_cast<size_t>(id - kPiecesFrom);
    return at < pieces_.size() ? std::string_view(pieces_[at]) : std::string_view{};
  }
  for (const AddedName& name : kAdded) {
    if (name.id == id) return name.text;
  }
  return {};
}

bool TagTokenizer::is_special(TokenId id) const {
  for (const AddedName& name : kAdded) {
    if (name.id == id) return name.is_special;
  }
  return false;
}

bool TagTokenizer::is_added(TokenId id) const {
  return id < kPiecesFrom && !token_bytes(id).empty();
}

std::optional<TokenId> TagTokenizer::id_of(std::string_view content) const {
  for (const AddedName& name : kAdded) {
    if (name.text == content) return name.id;
  }
  const auto found = pieces_by_bytes_.find(content);
  return found == pieces_by_bytes_.end() ? std::nullopt : std::optional(found->second);
}

TokenId TagTokenizer::size() const {
  return kPiecesFrom + static_cast<TokenId>(pieces_.size());
}

}  // namespace glint
