#include "base/flags/flag_parse.h"

#include <algorithm>

#include "base/error.h"
#include "base/flags/assignment.h"
#include "base/flags/config_file.h"

namespace glint {

namespace {

std::optional<std::string> help_topic(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word == "-h" || word == "--help") return std::string();
    if (word.starts_with("--help=")) return word.substr(7);
  }
  return std::nullopt;
}

std::vector<Assignment> said_of(const std::vector<Assignment>& all, const Flag& flag) {
  std::vector<Assignment> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some),
               [&](const Assignment& said) { return said.flag == &flag; });
  return some;
}

std::vector<Assignment> said_by_environment(const Flag& flag, const Environment& environment) {
  std::vector<Assignment> said;
  for (const std::string& variable : flag.environment) {
    const char* const text = environment(variable.c_str());
    if (text == nullptr || *text == '\0') continue;
    said.push_back({&flag, variable, cat("environment variable ", variable), "", {text}});
  }
  return said;
}

}  // namespace

FlagReport parse_flags(const FlagTable& table, const std::vector<std::string>& words,
                       const Environment& environment) {
  FlagReport report;
  report.help = help_topic(words);
  if (report.help) return report;
  const std::vector<Assignment> command_line = read_words(table, words);
  std::vector<Assignment> file;
  const Flag* const config = table.find("config").flag;
  if (config != nullptr) {
    if (const auto said = said_of(command_line, *config); !said.empty()) {
      const std::string& path = said.back().texts.front();
      if (!path.empty()) file = read_config_file(table, path);  // an empty one is refused below
    }
  }
  for (const Flag& flag : table.flags()) {
    std::vector<Assignment> said = said_of(command_line, flag);
    if (said.empty() || flag.kind == FlagKind::object) {
      std::vector<Assignment> below = said_of(file, flag);
      // The command line stands last and wins.
      said.insert(said.begin(), below.begin(), below.end());
    }
    if (said.empty()) said = said_by_environment(flag, environment);
    if (said.empty()) continue;
    report.given[flag.name] = said.back().source;
    settle(flag, said, report.warnings);
  }
  return report;
}

}  // namespace glint
