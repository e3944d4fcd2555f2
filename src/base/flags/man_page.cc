#include "base/flags/man_page.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/flags/help.h"

namespace glint {

namespace {

/// Text as roff takes it for itself.
std::string escaped(std::string_view text) {
  std::string out;
  if (!text.empty() && (text.front() == '.' || text.front() == '\'')) out += "\\&";
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string entry(std::string_view heading, std::string_view paragraph) {
  return cat(".TP\n\\fB", escaped(heading), "\\fR\n", paragraph.empty() ? "\\&" : escaped(paragraph), "\n");
}

std::string entries(const FlagTable& table, const std::string& group) {
  std::string text;
  for (const Flag& flag : table.flags()) {
    if (flag.group_name == group) text += entry(flag_heading(flag), flag_paragraph(flag));
  }
  return text;
}

}  // namespace

std::string man_page(const FlagTable& table, const FlagTable* more, std::string_view title,
                     std::string_view version, std::string_view synopsis) {
  std::string text =
      cat(".TH ", upper(title), " 1 \"\" \"", escaped(version), "\" \"User Commands\"\n.SH NAME\n",
          escaped(title), " \\- ", escaped(table.about()), "\n.SH SYNOPSIS\n");
  for (std::string_view rest = synopsis; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    text += cat("\\fB", escaped(rest.substr(0, end)), "\\fR\n.br\n");
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  text += cat(".SH DESCRIPTION\n", escaped(kFlagRules), "\n");
  for (const FlagGroup& group : table.groups()) {
    text += cat(".SH ", escaped(upper(group.name)), "\n", entries(table, group.name));
  }
  if (more != nullptr) {
    text += cat(".SH FLAGS OF ", escaped(upper(more->form())), " ALONE\n");
    for (const Flag& flag : more->flags()) {
      if (table.find(flag.name).flag == nullptr) text += entry(flag_heading(flag), flag_paragraph(flag));
    }
  }
  if (!table.environment_notes().empty()) text += ".SH ENVIRONMENT\n";
  for (const EnvironmentNote& note : table.environment_notes()) text += entry(note.name, note.help);
  text += cat(".SH EXIT STATUS\n", entry("0", "done"), entry("1", "the system or the program failed"),
              entry("2", "the command line or a file is wrong; one line says what"));
  return text;
}

}  // namespace glint
