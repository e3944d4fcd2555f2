// Edits of a JSON object's text that leave every other byte as it was.
#pragma once

#include <string>
#include <string_view>

namespace glint {

/// Sets the member `key` of the object in `text` to `value` (JSON text): in its place if it exists, else as
/// the last member, on a line of its own indented by two. `text` must be a valid JSON object with at least
/// one member.
std::string set_json_member(std::string_view text, std::string_view key, std::string_view value);

/// Takes the member out, with its comma. Unchanged if there is none.
std::string remove_json_member(std::string_view text, std::string_view key);

}  // namespace glint
