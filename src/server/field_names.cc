#include "server/field_names.h"

#include <algorithm>

namespace glint {

namespace {

constexpr std::string_view kBody = "body.";  // in front of the names in errors of types

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Behind the dot of "structured_outputs.json" no name of the request begins.
bool begins_name(std::string_view text, size_t at) {
  if (at == 0 || text.substr(0, at).ends_with(kBody)) return true;
  return !is_word(text[at - 1]) && text[at - 1] != '.';
}

bool stands_at(std::string_view text, size_t at, std::string_view name) {
  if (!text.substr(at).starts_with(name)) return false;
  const size_t end = at + name.size();
  return end == text.size() || !is_word(text[end]);
}

}  // namespace

void FieldNames::add(std::string chat, std::string own) {
  const auto shorter = std::find_if(names_.begin(), names_.end(),
                                    [&](const auto& name) { return name.first.size() < chat.size(); });
  names_.emplace(shorter, std::move(chat), std::move(own));
}

std::string FieldNames::translated(std::string_view text) const {
  std::string out;
  bool quoted = false;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '"') quoted = !quoted;
    const auto name = quoted || !begins_name(text, at)
                          ? names_.end()
                          : std::find_if(names_.begin(), names_.end(), [&](const auto& candidate) {
                              return stands_at(text, at, candidate.first);
                            });
    if (name == names_.end()) {
      out += text[at++];
    } else {
      out += name->second;
      at += name->first.size();
    }
  }
  return out;
}

ApiError FieldNames::in_own_words(ApiError error) const {
  error.message = translated(error.message);
  if (error.param) error.param = translated(*error.param);
  return error;
}

}  // namespace glint
