#include "text/grammar/literal_set.h"

#include <algorithm>

namespace glint {

bool allow_towards(const TokenTable& table, std::string_view text, std::string_view written,
                   TokenMask& mask) {
  if (!text.starts_with(written)) return false;
  const std::string_view rest = text.substr(written.size());
  const size_t longest = std::min(rest.size(), table.text_bytes_max());
  for (size_t bytes = 1; bytes <= longest; ++bytes) {
    for (const TokenId id : table.of_text(rest.substr(0, bytes))) mask.set(id);
  }
  return rest.empty();
}

}  // namespace glint
