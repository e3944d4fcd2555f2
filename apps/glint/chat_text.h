// What of a model's text may reach a terminal.
#pragma once

#include <string>
#include <string_view>

namespace glint {

/// `text` without the power to steer a terminal or to reorder its lines: tabs and line feeds stay, other
/// control characters (ESC and C1 among them) are written as ^[ or <9B>, bidirectional overrides and isolates
/// as <202E>, ill-formed UTF-8 as U+FFFD. Each character alone decides, so pieces may be cut anywhere between
/// characters.
std::string harmless_text(std::string_view text);

/// The same on one line: tabs and line feeds as spaces.
std::string harmless_line(std::string_view text);

}  // namespace glint
