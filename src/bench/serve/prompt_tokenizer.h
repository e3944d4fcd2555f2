// The tokenizer as a benchmark's client uses it: Hugging Face transformers' view of a model folder, because
// prompts of the random dataset are defined by it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace glint::bench {

class PromptTokenizer {
 public:
  /// From a folder with tokenizer.json (and tokenizer_config.json, special_tokens_map.json and the chat
  /// template, if they are there), or from a tokenizer.json alone. Throws as Tokenizer::load does.
  static std::shared_ptr<const PromptTokenizer> load(const std::filesystem::path& path);

  /// Without special tokens unless asked.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special_tokens = false) const {
    return tokenizer_->encode(text, add_special_tokens);
  }
  /// Special tokens stay; the clean-up of spaces is done if tokenizer_config.json wants it.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids) const;
  [[nodiscard]] int64_t count(std::string_view text, bool add_special_tokens = false) const {
    return static_cast<int64_t>(encode(text, add_special_tokens).size());
  }

  /// Tokens of the base vocabulary; tokens that are only added do not count (154,820 for GLM).
  [[nodiscard]] int64_t vocab_size() const { return tokenizer_->base_size(); }
  /// What an empty text becomes with special tokens.
  [[nodiscard]] int64_t special_tokens_to_add() const { return count("", true); }
  /// Ids below vocab_size() that are no special token, ascending. Special is what tokenizer_config.json or
  /// special_tokens_map.json name as bos, eos, unk, sep, pad, cls, mask, additional or extra token.
  [[nodiscard]] const std::vector<TokenId>& allowed_ids() const { return allowed_; }

  /// The prompt of one user message. Throws not_found or unsupported if the folder has no template that is
  /// known here.
  [[nodiscard]] std::string render_user(std::string_view text) const;
  /// The prompt of a list of messages, with `kwargs` as chat_template_kwargs (null or an object).
  [[nodiscard]] std::string render(const OrderedJson& messages, const OrderedJson& kwargs = {}) const;

 private:
  void read_settings(const std::filesystem::path& folder);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::filesystem::path folder_;
  std::vector<TokenId> allowed_;
  bool clean_up_spaces_ = false;
};

/// Where the tokenizer of a model lies: `name` if it is a folder or file, else the snapshot of the Hugging
/// Face cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub). Nothing if there is none.
std::optional<std::filesystem::path> find_tokenizer(const std::string& name);

}  // namespace glint::bench
