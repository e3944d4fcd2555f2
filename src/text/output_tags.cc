#include "text/output_tags.h"

#include <algorithm>

#include "base/error.h"

namespace glint {

std::string_view tag_text(OutputTag tag) {
  static constexpr std::array<std::string_view, kOutputTags + 1> kTexts = {
      "<think>",      "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
      "</arg_value>", ""};
  return kTexts[static_cast<size_t>(tag)];
}

OutputTags::OutputTags(const Tokenizer& tokenizer) {
  for (size_t i = 0; i < kOutputTags; ++i) {
    const std::string_view text = tag_text(static_cast<OutputTag>(i));
    const std::optional<TokenId> id = tokenizer.id_of(text);
    if (!id || !tokenizer.is_added(*id)) {
      fail(ErrorKind::bad_input, "the tokenizer has no added token \"", text,
           "\": answers of a GLM-5 model cannot be read without it");
    }
    ids_[i] = *id;
  }
  lowest_ = *std::min_element(ids_.begin(), ids_.end());
  highest_ = *std::max_element(ids_.begin(), ids_.end());
}

OutputTag OutputTags::of(TokenId id) const {
  if (id < lowest_ || id > highest_) return OutputTag::none;
  const auto found = std::find(ids_.begin(), ids_.end(), id);
  return static_cast<OutputTag>(found - ids_.begin());  // one past the end is none
}

}  // namespace glint
