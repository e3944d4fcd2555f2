#include "byte_tokenizer.h"

#include "base/utf8.h"

namespace glint {

namespace {

struct Added {
  TokenId id;
  std::string_view content;
  bool special;
};

constexpr Added kAdded[] = {
    {kEndOfText, "<|endoftext|>", true},
    {154822, "[gMASK]", true},
    {154824, "<sop>", true},
    {154826, "<|system|>", true},
    {kUser, "<|user|>", true},
    {154828, "<|assistant|>", true},
    {kObservation, "<|observation|>", true},
    {154841, "<think>", false},
    {154842, "</think>", false},
    {154843, "<tool_call>", false},
    {154844, "</tool_call>", false},
    {154845, "<tool_response>", false},
    {154846, "</tool_response>", false},
    {154847, "<arg_key>", false},
    {154848, "</arg_key>", false},
    {154849, "<arg_value>", false},
    {154850, "</arg_value>", false},
};

const Added* find(TokenId id) {
  for (const Added& added : kAdded) {
    if (added.id == id) return &added;
  }
  return nullptr;
}

}  // namespace

ByteTokenizer::ByteTokenizer() {
  for (int byte = 0; byte < 256; ++byte) bytes_ += static_cast<char>(byte);
}

std::vector<TokenId> ByteTokenizer::encode(std::string_view text, bool /*add_special_tokens*/) const {
  std::vector<TokenId> ids;
  while (!text.empty()) {
    const Added* tag = nullptr;
    for (const Added& added : kAdded) {
      if (text.substr(0, added.content.size()) == added.content) tag = &added;
    }
    ids.push_back(tag != nullptr ? tag->id : static_cast<unsigned char>(text.front()));
    text.remove_prefix(tag != nullptr ? tag->content.size() : 1);
  }
  return ids;
}

std::string ByteTokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::string text;
  for (const TokenId id : ids) {
    if (!skip_special_tokens || !is_special(id)) text += token_bytes(id);
  }
  return utf8_lossy(text);
}

std::string_view ByteTokenizer::token_bytes(TokenId id) const {
  if (id >= 0 && id < 256) return std::string_view(bytes_).substr(static_cast<size_t>(id), 1);
  const Added* added = find(id);
  return added == nullptr ? std::string_view{} : added->content;
}

bool ByteTokenizer::is_special(TokenId id) const {
  const Added* added = find(id);
  return added != nullptr && added->special;
}

bool ByteTokenizer::is_added(TokenId id) const {
  return find(id) != nullptr;
}

std::optional<TokenId> ByteTokenizer::id_of(std::string_view content) const {
  for (const Added& added : kAdded) {
    if (added.content == content) return added.id;
  }
  if (content.size() == 1) return static_cast<unsigned char>(content.front());
  return std::nullopt;
}

std::vector<TokenId> ids_of(std::string_view text) {
  static const ByteTokenizer tokenizer;
  return tokenizer.encode(text, false);
}

}  // namespace glint
