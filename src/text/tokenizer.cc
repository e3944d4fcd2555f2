#include "text/tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/byte_map.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_json.h"

namespace glint {

namespace {

/// Storage of one call of encode().
struct EncodeBuffers {
  std::vector<TextSplit> outer, inner;
  std::vector<uint32_t> ends;
  BpeModel::Scratch bpe;
};

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(TokenizerSpec spec, std::string_view what)
      : pre_tokenizer_(make_pretokenizer(spec.pattern, what)),
        post_template_(std::move(spec.post_template)),
        unmapped_(std::move(spec.unmapped)),
        model_(std::move(spec.vocabulary), std::move(spec.merges), spec.ignore_merges) {
    std::vector<AddedToken> raw;
    std::vector<AddedToken> normalized;
    flags_.resize(static_cast<size_t>(model_.vocabulary().size()));
    for (TokenId id = 0; id < model_.vocabulary().size(); ++id) {
      if (model_.vocabulary().exists(id)) flags_[static_cast<size_t>(id)] = kExists;
    }
    for (AddedToken& token : spec.added) {
      const auto at = static_cast<size_t>(token.id);
      if (at >= flags_.size()) flags_.resize(at + 1);
      flags_[at] = static_cast<uint8_t>(kExists | kAdded | (token.special ? kSpecial : 0));
      added_ids_.emplace(token.content, token.id);
      added_bytes_.emplace(token.id, token_string_to_bytes(token.content).value_or(token.content));
      (token.normalized ? normalized : raw).push_back(std::move(token));
    }
    raw_tokens_ = AddedTokenMatcher(std::move(raw));
    normalized_tokens_ = AddedTokenMatcher(std::move(normalized));
  }

  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const override {
    check_text(text);
    std::vector<TokenId> ids;
    ids.reserve(text.size() / 4 + 8);
    EncodeBuffers buffers;
    raw_tokens_.split(text, buffers.outer);
    for (const TextSplit& split : buffers.outer) {
      if (split.id >= 0) {
        ids.push_back(split.id);
      } else {
        encode_rest(split.text, ids, buffers);
      }
    }
    return add_special_tokens ? apply_template(std::move(ids)) : ids;
  }

  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override {
    std::string bytes;
    for (const TokenId id : ids) {
      if (skip_special_tokens && is_special(id)) continue;
      bytes.append(token_bytes(id));
    }
    return utf8_lossy(bytes);
  }

  [[nodiscard]] std::string_view token_bytes(TokenId id) const override {
    if (!is_added(id)) return model_.vocabulary().bytes(id);
    return added_bytes_.find(id)->second;
  }

  [[nodiscard]] bool is_special(TokenId id) const override { return has_flag(id, kSpecial); }
  [[nodiscard]] bool is_added(TokenId id) const override { return has_flag(id, kAdded); }
  [[nodiscard]] bool exists(TokenId id) const override { return has_flag(id, kExists); }
  [[nodiscard]] TokenId size() const override { return static_cast<TokenId>(flags_.size()); }
  [[nodiscard]] TokenId base_size() const override {
    return static_cast<TokenId>(model_.vocabulary().tokens());
  }

  [[nodiscard]] std::optional<TokenId> id_of(std::string_view content) const override {
    const std::string key(content);
    if (const auto found = added_ids_.find(key); found != added_ids_.end()) return found->second;
    if (const auto bytes = token_string_to_bytes(content)) {
      const TokenId id = model_.vocabulary().find(*bytes);
      return id < 0 ? std::nullopt : std::optional(id);
    }
    const auto found = unmapped_.find(key);
    return found == unmapped_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  static constexpr uint8_t kExists = 1;
  static constexpr uint8_t kAdded = 2;
  static constexpr uint8_t kSpecial = 4;

  [[nodiscard]] bool has_flag(TokenId id, uint8_t flag) const {
    return id >= 0 && static_cast<size_t>(id) < flags_.size() &&
           (flags_[static_cast<size_t>(id)] & flag) != 0;
  }

  static void check_text(std::string_view text) {
    if (text.size() > UINT32_MAX)
      fail(ErrorKind::bad_input, "a text of ", text.size(), " bytes, expected less than 4 GiB");
    if (const size_t good = utf8_valid_prefix(text); good != text.size()) {
      fail(ErrorKind::bad_input, "the text is not valid UTF-8 at byte ", good);
    }
  }

  /// What the first pass left: the tokens with normalized=true, then pieces.
  void encode_rest(std::string_view text, std::vector<TokenId>& ids, EncodeBuffers& buffers) const {
    if (normalized_tokens_.empty()) return encode_pieces(text, ids, buffers);
    buffers.inner.clear();
    normalized_tokens_.split(text, buffers.inner);
    for (const TextSplit& split : buffers.inner) {
      if (split.id >= 0) {
        ids.push_back(split.id);
      } else {
        encode_pieces(split.text, ids, buffers);
      }
    }
  }

  void encode_pieces(std::string_view text, std::vector<TokenId>& ids, EncodeBuffers& buffers) const {
    buffers.ends.clear();
    pre_tokenizer_->split(text, buffers.ends);
    uint32_t start = 0;
    for (const uint32_t end : buffers.ends) {
      model_.encode(text.substr(start, end - start), ids, buffers.bpe);
      start = end;
    }
  }

  [[nodiscard]] std::vector<TokenId> apply_template(std::vector<TokenId> text_ids) const {
    if (post_template_.size() == 1 && post_template_[0] == TokenizerSpec::kText) return text_ids;
    std::vector<TokenId> ids;
    for (const TokenId id : post_template_) {
      if (id == TokenizerSpec::kText) {
        ids.insert(ids.end(), text_ids.begin(), text_ids.end());
      } else {
        ids.push_back(id);
      }
    }
    return ids;
  }

  std::unique_ptr<const PreTokenizer> pre_tokenizer_;
  std::vector<TokenId> post_template_;
  std::unordered_map<std::string, TokenId> unmapped_;
  BpeModel model_;
  AddedTokenMatcher raw_tokens_, normalized_tokens_;
  std::vector<uint8_t> flags_;  // by id
  std::unordered_map<std::string, TokenId> added_ids_;
  std::unordered_map<TokenId, std::string> added_bytes_;
};

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::parse(std::string_view json, std::string_view what) {
  return std::make_shared<JsonTokenizer>(parse_tokenizer_json(json, what), what);
}

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& path) {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "tokenizer.json" : path;
  return parse(read_file(file), file.string());
}

StreamDetokenizer::StreamDetokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string StreamDetokenizer::push(TokenId id) {
  if (skip_special_tokens_ && tokenizer_->is_special(id)) return {};
  held_.append(tokenizer_->token_bytes(id));
  const size_t whole = held_.size() - utf8_unfinished_tail(held_);
  std::string text = utf8_lossy(std::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
  return text;
}

}  // namespace glint
