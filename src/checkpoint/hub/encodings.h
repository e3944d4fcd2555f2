// Text forms of bytes that HTTP uses.
#pragma once

#include <string>
#include <string_view>

namespace glint::hub {

/// Every byte but letters, digits and "-._~" as %XX, so that "refs/pr/1" is one segment.
std::string percent_encoded(std::string_view text);
/// %XX as bytes; what is no such triple stays as it is.
std::string percent_decoded(std::string_view text);
/// RFC 4648, padded.
std::string base64(std::string_view bytes);
/// A to Z as a to z; other bytes stay.
std::string lower_case(std::string_view text);

}  // namespace glint::hub
