#include "base/flags/flag_table.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace glint {

namespace {

/// '_' is '-' in a flag's name.
std::string with_dashes(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

}  // namespace

FlagTable::FlagTable(std::string program, std::string form, std::string about, std::string positional)
    : program_(std::move(program)),
      form_(std::move(form)),
      about_(std::move(about)),
      positional_(std::move(positional)) {}

void FlagTable::group(const std::string& name, std::vector<std::string> aliases) {
  current_group_ = name;
  for (const FlagGroup& group : groups_) {
    if (group.name == name) return;
  }
  groups_.push_back({name, std::move(aliases)});
}

void FlagTable::take_name(const std::string& name, const Flag& flag, bool on) {
  if (!names_.emplace(name, Match{&flag, name, on}).second) {
    fail(ErrorKind::internal, "flag --", name, " is declared twice");
  }
}

void FlagTable::add(Flag declared) {
  const auto& forms = declared.forms;
  if (!forms.empty() && std::find(forms.begin(), forms.end(), form_) == forms.end()) return;
  GLINT_CHECK(!current_group_.empty());
  declared.group_name = current_group_;
  const Flag& flag = flags_.emplace_back(std::move(declared));
  take_name(flag.name, flag, true);
  for (const std::string& name : flag.aliases) take_name(name, flag, true);
  for (const std::string& name : flag.off_names) take_name(name, flag, false);
  if (flag.kind == FlagKind::toggle) {
    take_name("no-" + flag.name, flag, false);
    for (const std::string& name : flag.aliases) take_name("no-" + name, flag, false);
    for (const std::string& name : flag.off_names) take_name("no-" + name, flag, true);
  }
  for (const std::string& name : flag.shorts) {
    if (!shorts_.emplace(name, &flag).second) fail(ErrorKind::internal, "flag -", name, " is declared twice");
  }
  for (const auto& [form, text] : flag.form_defaults) {
    if (form == form_) flag.store({text});
  }
}

void FlagTable::note_environment(std::string name, std::string help) {
  notes_.push_back({std::move(name), std::move(help)});
}

FlagTable::Match FlagTable::find(std::string_view long_name) const {
  const auto found = names_.find(with_dashes(long_name));
  return found == names_.end() ? Match{} : found->second;
}

const Flag* FlagTable::find_short(std::string_view short_name) const {
  const auto found = shorts_.find(short_name);
  return found == shorts_.end() ? nullptr : found->second;
}

std::vector<FlagTable::Match> FlagTable::starting_with(std::string_view prefix) const {
  const std::string wanted = with_dashes(prefix);
  std::vector<Match> matches;
  for (auto it = names_.lower_bound(wanted); it != names_.end() && it->first.starts_with(wanted); ++it) {
    matches.push_back(it->second);
  }
  return matches;
}

std::vector<std::string> FlagTable::similar(std::string_view long_name) const {
  std::vector<std::string> names;
  for (const auto& [name, match] : names_) names.push_back(name);
  return similar_names(with_dashes(long_name), names);
}

const Flag* FlagTable::positional() const {
  return positional_.empty() ? nullptr : find(positional_).flag;
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> two(b.size() + 1), one(b.size() + 1), row(b.size() + 1);
  std::iota(one.begin(), one.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({one[j] + 1, row[j - 1] + 1, one[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two[j - 2] + 1);
      }
    }
    std::swap(two, one);
    std::swap(one, row);
  }
  return one[b.size()];
}

std::vector<std::string> similar_names(std::string_view wanted, const std::vector<std::string>& names) {
  std::vector<std::pair<int, std::string>> near;
  if (wanted.size() > 64) return {};  // nobody means a flag by it
  const int most = std::max<int>(1, static_cast<int>(wanted.size()) / 4);
  for (const std::string& name : names) {
    int distance = edit_distance(wanted, name);
    // A name that holds the whole word is near whatever its length: num-seqs, max-num-seqs.
    if (wanted.size() >= 4 && name.find(wanted) != std::string::npos) distance = std::min(distance, most);
    if (distance <= most) near.emplace_back(distance, name);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min<size_t>(3, near.size()); ++i) out.push_back(near[i].second);
  return out;
}

}  // namespace glint
