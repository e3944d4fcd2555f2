// Reading optional fields of a request body with errors that name their place. Private to the text room.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "text/request_error.h"

namespace glint {

/// "null", "a boolean", "a number", "a string", "a list", "an object".
std::string_view json_kind(const OrderedJson& value);

/// The member `name` of an object; null pointer if it is absent or JSON null.
const OrderedJson* given(const OrderedJson& object, std::string_view name);

/// Throws RequestError(param) unless the value has the kind.
const std::string& need_string(const OrderedJson& value, const std::string& param);
bool need_bool(const OrderedJson& value, const std::string& param);
void need_object(const OrderedJson& value, const std::string& param);
void need_list(const OrderedJson& value, const std::string& param);
void need_text_or_list(const OrderedJson& value, const std::string& param);

/// A piece of the client's text for an error line: at most 200 bytes, one line, cut between characters.
std::string excerpt(std::string_view text);

}  // namespace glint
