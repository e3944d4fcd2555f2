// All flags of one form of the program ("serve", "launch_server", "plan"), in the groups that help shows.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/flags/flag.h"

namespace glint {

/// A variable of the environment that is no flag's, for help and man page.
struct EnvironmentNote {
  std::string name;
  std::string help;
};

struct FlagGroup {
  std::string name;                  // "HTTP server"
  std::vector<std::string> aliases;  // names that --help=NAME takes too, "Frontend"
};

class FlagTable {
 public:
  /// `form`: the word after the program's name. `positional`: the flag that a bare word gives; empty: none.
  FlagTable(std::string program, std::string form, std::string about, std::string positional = "");

  /// The flags added from now on belong to this group. Again the same name: that group goes on.
  void group(const std::string& name, std::vector<std::string> aliases = {});
  /// Left out if the flag belongs to other forms. Stores the form's own default if there is one. A name that
  /// is taken already is an internal error.
  void add(Flag flag);
  void note_environment(std::string name, std::string help);

  /// A long name without dashes, '_' taken for '-'. `on` is false if the name says --no-x. Null: none.
  struct Match {
    const Flag* flag = nullptr;
    std::string name;  // the whole name
    bool on = true;
  };
  [[nodiscard]] Match find(std::string_view long_name) const;
  [[nodiscard]] const Flag* find_short(std::string_view short_name) const;
  /// Every long name that begins with `prefix`, sorted.
  [[nodiscard]] std::vector<Match> starting_with(std::string_view prefix) const;
  /// At most three names that look like it, the most alike first.
  [[nodiscard]] std::vector<std::string> similar(std::string_view long_name) const;

  [[nodiscard]] const std::string& program() const { return program_; }
  [[nodiscard]] const std::string& form() const { return form_; }
  [[nodiscard]] const std::string& about() const { return about_; }
  [[nodiscard]] const Flag* positional() const;
  [[nodiscard]] const std::vector<FlagGroup>& groups() const { return groups_; }
  [[nodiscard]] const std::deque<Flag>& flags() const { return flags_; }
  [[nodiscard]] const std::vector<EnvironmentNote>& environment_notes() const { return notes_; }

 private:
  void take_name(const std::string& name, const Flag& flag, bool on);

  std::string program_, form_, about_, positional_;
  std::vector<FlagGroup> groups_;
  std::string current_group_;
  std::deque<Flag> flags_;  // addresses stay
  std::map<std::string, Match, std::less<>> names_;
  std::map<std::string, const Flag*, std::less<>> shorts_;
  std::vector<EnvironmentNote> notes_;
};

/// Edits (one character put in, taken out, replaced, or two neighbours swapped) from `a` to `b`.
int edit_distance(std::string_view a, std::string_view b);

/// At most three of `names` that look like `wanted`.
std::vector<std::string> similar_names(std::string_view wanted, const std::vector<std::string>& names);

}  // namespace glint
