// Do two chat templates mean the same? They render a set of conversations that touches every rule of GLM-5's
// format.
#pragma once

#include <string>

#include "text/chat_template.h"

namespace glint {

/// "" if both make the same bytes of every conversation; else the name of the first that differs. Throws
/// RequestError if one of them fails.
std::string first_difference(const ChatTemplate& a, const ChatTemplate& b);

}  // namespace glint
