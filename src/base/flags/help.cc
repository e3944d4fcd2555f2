#include "base/flags/help.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace glint {

namespace {

std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ' || c == '-' || c == '_') continue;
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : std::string(between)) + part;
  return out;
}

/// "argument" behind a name, with a space before it.
std::string value_text(const Flag& flag) {
  switch (flag.kind) {
    case FlagKind::toggle:
      return "";
    case FlagKind::list:
      return cat(" ", flag.value_name, " [", flag.value_name, " ...]");
    default:
      return " " + flag.value_name;
  }
}

std::string flags_of_group(const FlagTable& table, const FlagGroup& group, int width) {
  std::string text;
  for (const Flag& flag : table.flags()) {
    if (flag.group_name != group.name) continue;
    text += wrapped(flag_heading(flag), 2, width) + wrapped(flag_paragraph(flag), 6, width);
  }
  return text.empty() ? text : cat(group.name, ":\n", text, "\n");
}

std::string whole(const FlagTable& table, int width) {
  const Flag* const bare = table.positional();
  std::string text = cat("usage: ", table.program(), " ", table.form(), " ",
                         bare != nullptr ? cat("[", bare->value_name, "] ") : std::string(), "[flags]\n\n");
  text += wrapped(table.about(), 0, width) + "\n";
  text += wrapped(kFlagRules, 0, width);
  text += "\n";
  for (const FlagGroup& group : table.groups()) text += flags_of_group(table, group, width);
  if (table.environment_notes().empty()) return text;
  text += "Environment:\n";
  for (const EnvironmentNote& note : table.environment_notes()) {
    text += wrapped(note.name, 2, width) + wrapped(note.help, 6, width);
  }
  return text + "\n";
}

std::string group_list(const FlagTable& table) {
  std::string text;
  for (const FlagGroup& group : table.groups()) {
    text += group.name;
    if (!group.aliases.empty()) text += cat(" (", joined(group.aliases, ", "), ")");
    text += "\n";
  }
  return text;
}

}  // namespace

std::string wrapped(std::string_view text, int indent, int width) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  const size_t room = static_cast<size_t>(std::max(20, width - indent));
  std::string out;
  while (!text.empty()) {
    size_t take = text.size();
    if (take > room) {
      take = text.rfind(' ', room);
      if (take == std::string_view::npos || take == 0) take = std::min(text.find(' '), text.size());
    }
    out += cat(margin, text.substr(0, take), "\n");
    text.remove_prefix(take);
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  }
  return out;
}

std::string flag_heading(const Flag& flag) {
  std::vector<std::string> names;
  const std::string value = value_text(flag);
  for (const std::string& name : flag.shorts) names.push_back(cat("-", name, value));
  names.push_back(cat("--", flag.name, value));
  if (flag.kind == FlagKind::toggle) names.push_back(cat("--no-", flag.name));
  for (const std::string& name : flag.aliases) names.push_back(cat("--", name));
  for (const std::string& name : flag.off_names) names.push_back(cat("--", name, " (off)"));
  return joined(names, ", ");
}

std::string flag_paragraph(const Flag& flag) {
  std::string text = flag.help_text;
  const auto say = [&text](const std::string& more) { text += (text.empty() ? "" : ". ") + more; };
  if (!flag.no_effect_reason.empty()) say(cat("No effect here: ", flag.no_effect_reason));
  if (!flag.refused_reason.empty()) say(cat("Refused: ", flag.refused_reason));
  std::vector<std::string> facts;
  if (!flag.choices.empty()) facts.push_back(cat("one of ", joined(flag.choices, ", ")));
  for (const FlagKey& key : flag.object_keys)
    facts.push_back(cat("--", flag.name, ".", key.name, ": ", key.help));
  if (!flag.default_shown.empty()) facts.push_back(cat("default: ", flag.default_shown));
  for (const auto& [form, value] : flag.form_defaults) facts.push_back(cat("default of ", form, ": ", value));
  for (const std::string& variable : flag.environment) facts.push_back(cat("else the variable ", variable));
  if (!facts.empty()) text += cat(text.empty() ? "(" : " (", joined(facts, "; "), ")");
  return text;
}

std::string help_text(const FlagTable& table, std::string_view topic, int width) {
  if (topic.empty() || topic == "all" || topic == "page") return whole(table, width);
  if (topic == "listgroup") return group_list(table);
  const std::string wanted = folded(topic);
  for (const FlagGroup& group : table.groups()) {
    std::vector<std::string> names = group.aliases;
    names.push_back(group.name);
    for (const std::string& name : names) {
      if (folded(name) == wanted) return flags_of_group(table, group, width);
    }
  }
  std::string text;
  for (const Flag& flag : table.flags()) {
    const bool named = folded(flag_heading(flag)).find(wanted) != std::string::npos;
    if (named) text += wrapped(flag_heading(flag), 2, width) + wrapped(flag_paragraph(flag), 6, width);
  }
  if (text.empty()) {
    std::vector<std::string> groups;
    for (const FlagGroup& group : table.groups()) groups.push_back(group.name);
    fail(ErrorKind::bad_input, "--help=", topic, ": no group or flag of that name; groups are ",
         joined(groups, ", "));
  }
  return text;
}

}  // namespace glint
