#include "base/flags/completion.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"

namespace glint {

namespace {

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += between;
    out += part;
  }
  return out;
}

/// Between single quotes of any of the shells.
std::string in_quotes(std::string_view text, bool fish = false) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += fish ? "\\'" : "'\\''";
    } else if (c == '\\' && fish) {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out + "'";
}

/// Up to the first sentence's end, for one line.
std::string short_help(std::string_view text) {
  const size_t end = std::min(text.find(". "), text.find("; "));
  return std::string(text.substr(0, std::min(end, text.size())));
}

std::vector<std::string> all_names(const CompletedCommand& command) {
  std::vector<std::string> names;
  for (const CompletedFlag& flag : command.flags)
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

/// The first word of every command: "bench" once.
std::vector<CompletedCommand> first_words(const std::vector<CompletedCommand>& commands) {
  std::vector<CompletedCommand> first;
  std::set<std::string> seen;
  for (const CompletedCommand& command : commands) {
    const std::string word = command.name.substr(0, command.name.find(' '));
    if (seen.insert(word).second) first.push_back({word, command.help, {}});
  }
  return first;
}

std::vector<std::string> second_words(const std::vector<CompletedCommand>& commands,
                                      const std::string& first) {
  std::vector<std::string> words;
  for (const CompletedCommand& command : commands) {
    if (command.name.starts_with(first + " ")) words.push_back(command.name.substr(first.size() + 1));
  }
  return words;
}

/// `case` arms "serve --dtype)" that do what `reply` says of the choices; those whose value is free do
/// `files`.
std::string value_arms(const std::vector<CompletedCommand>& commands,
                       const std::function<std::string(const std::string& choices)>& reply,
                       std::string_view files) {
  std::string text;
  for (const CompletedCommand& command : commands) {
    std::vector<std::string> free;
    for (const CompletedFlag& flag : command.flags) {
      std::vector<std::string> patterns;
      for (const std::string& name : flag.names) patterns.push_back(in_quotes(cat(command.name, " ", name)));
      if (!flag.takes_value) continue;
      if (flag.choices.empty()) {
        free.insert(free.end(), patterns.begin(), patterns.end());
      } else {
        text += cat("    ", joined(patterns, "|"), ") ", reply(joined(flag.choices, " ")), "; return ;;\n");
      }
    }
    if (!free.empty()) text += cat("    ", joined(free, "|"), ") ", files, "; return ;;\n");
  }
  return text;
}

std::string bash_script(std::string_view program, const std::vector<CompletedCommand>& commands) {
  std::string text =
      cat("# bash completion for ", program, "\n_", program, "_words() {\n",
          "  COMPREPLY=($(compgen -W \"$1\" -- \"$cur\"))\n}\n_", program, "() {\n",
          "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n",
          "  COMPREPLY=()\n",
          "  if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; "
          "fi\n");
  const auto words = [&](const std::string& list) { return cat("_", program, "_words ", in_quotes(list)); };
  std::vector<std::string> first;
  std::string pairs;
  for (const CompletedCommand& command : first_words(commands)) {
    first.push_back(command.name);
    const std::vector<std::string> second = second_words(commands, command.name);
    if (second.empty()) continue;
    pairs += cat("    ", command.name, ") if [ \"$COMP_CWORD\" -eq 2 ]; then _", program, "_words ",
                 in_quotes(joined(second, " ")), "; return; fi; command=\"$command ${COMP_WORDS[2]}\" ;;\n");
  }
  text += cat("  if [ \"$COMP_CWORD\" -eq 1 ]; then _", program, "_words ", in_quotes(joined(first, " ")),
              "; return; fi\n");
  if (!pairs.empty()) text += cat("  case $command in\n", pairs, "  esac\n");
  text += cat("  case \"$command $prev\" in\n",
              value_arms(commands, words, "COMPREPLY=($(compgen -f -- \"$cur\"))"),
              "  esac\n  case $cur in -*) ;; *) COMPREPLY=($(compgen -f -- \"$cur\")); return ;; esac\n",
              "  case $command in\n");
  for (const CompletedCommand& command : commands) {
    text += cat("    ", in_quotes(command.name), ") _", program, "_words ",
                in_quotes(joined(all_names(command), " ")), " ;;\n");
  }
  return text + cat("  esac\n}\ncomplete -o filenames -F _", program, " ", program, "\n");
}

/// zsh's _describe takes "name:help", with colons inside escaped.
std::string zsh_pair(std::string_view name, std::string_view help) {
  std::string escaped;
  for (const char c : help) escaped += c == ':' ? std::string("\\:") : std::string(1, c);
  return in_quotes(cat(name, ":", escaped));
}

std::string zsh_script(std::string_view program, const std::vector<CompletedCommand>& commands) {
  const auto words = [](const std::string& list) { return cat("compadd -- ", list); };
  std::string text = cat("#compdef ", program, "\n_", program,
                         "() {\n  local command=${words[2]} prev=${words[CURRENT-1]}\n",
                         "  local -a list\n  if (( CURRENT == 2 )); then\n    list=(");
  std::string pairs;
  for (const CompletedCommand& command : first_words(commands)) {
    text += cat("\n      ", zsh_pair(command.name, short_help(command.help)));
    const std::vector<std::string> second = second_words(commands, command.name);
    if (second.empty()) continue;
    pairs += cat("    ", command.name, ") if (( CURRENT == 3 )); then compadd -- ", joined(second, " "),
                 "; return; fi; command=\"$command ${words[3]}\" ;;\n");
  }
  text += "\n    )\n    _describe command list\n    return\n  fi\n";
  if (!pairs.empty()) text += cat("  case $command in\n", pairs, "  esac\n");
  text += cat("  case \"$command $prev\" in\n", value_arms(commands, words, "_files"), "  esac\n");
  text += "  if [[ $PREFIX != -* ]]; then _files; return; fi\n  case $command in\n";
  for (const CompletedCommand& command : commands) {
    text += cat("    ", in_quotes(command.name), ") list=(");
    for (const CompletedFlag& flag : command.flags) {
      for (const std::string& name : flag.names)
        text += cat("\n      ", zsh_pair(name, short_help(flag.help)));
    }
    text += "\n    ) ;;\n";
  }
  return text + cat("  esac\n  _describe -o flag list\n}\n_", program, " \"$@\"\n");
}

std::string fish_script(std::string_view program, const std::vector<CompletedCommand>& commands) {
  std::string text = cat("# fish completion for ", program, "\n");
  for (const CompletedCommand& command : first_words(commands)) {
    text += cat("complete -c ", program, " -f -n __fish_use_subcommand -a ", command.name, " -d ",
                in_quotes(short_help(command.help), true), "\n");
    const std::vector<std::string> second = second_words(commands, command.name);
    if (!second.empty()) {
      text += cat("complete -c ", program, " -f -n '__fish_seen_subcommand_from ", command.name, "' -a '",
                  joined(second, " "), "'\n");
    }
  }
  for (const CompletedCommand& command : commands) {
    const size_t space = command.name.find(' ');
    std::string seen = cat("__fish_seen_subcommand_from ", command.name.substr(0, space));
    if (space != std::string::npos) {
      seen += cat("; and __fish_seen_subcommand_from ", command.name.substr(space + 1));
    }
    for (const CompletedFlag& flag : command.flags) {
      text += cat("complete -c ", program, " -n '", seen, "'");
      for (const std::string& name : flag.names) {
        const bool two = name.starts_with("--");
        text += cat(two ? " -l " : name.size() == 2 ? " -s " : " -o ", name.substr(two ? 2 : 1));
      }
      if (flag.takes_value)
        text += flag.choices.empty() ? " -r" : cat(" -x -a '", joined(flag.choices, " "), "'");
      text += cat(" -d ", in_quotes(short_help(flag.help), true), "\n");
    }
  }
  return text;
}

}  // namespace

CompletedCommand completed_command(const FlagTable& table) {
  CompletedCommand command{table.form(), table.about(), {}};
  for (const Flag& flag : table.flags()) {
    if (!flag.no_effect_reason.empty() || !flag.refused_reason.empty()) continue;
    CompletedFlag completed{{}, flag.kind != FlagKind::toggle, flag.choices, flag.help_text};
    for (const std::string& name : flag.shorts) completed.names.push_back(cat("-", name));
    completed.names.push_back(cat("--", flag.name));
    for (const std::string& name : flag.aliases) completed.names.push_back(cat("--", name));
    command.flags.push_back(std::move(completed));
    for (const FlagKey& key : flag.object_keys) {
      command.flags.push_back({{cat("--", flag.name, ".", key.name)}, true, {}, key.help});
    }
    std::vector<std::string> off;
    if (flag.kind == FlagKind::toggle) off.push_back(cat("--no-", flag.name));
    for (const std::string& name : flag.off_names) off.push_back(cat("--", name));
    if (!off.empty()) command.flags.push_back({off, false, {}, cat("Not: ", flag.help_text)});
  }
  command.flags.push_back({{"--help"}, false, {}, "Show the flags"});
  return command;
}

std::string completion_script(std::string_view shell, std::string_view program,
                              const std::vector<CompletedCommand>& commands) {
  if (shell == "bash") return bash_script(program, commands);
  if (shell == "zsh") return zsh_script(program, commands);
  if (shell == "fish") return fish_script(program, commands);
  fail(ErrorKind::bad_input, "completions are for bash, zsh and fish, not for ", shell);
}

}  // namespace glint
