#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/flags/assignment.h"

namespace glint {

namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "--" : ", --") + name;
  return text;
}

/// The words of a command line, taken from the front.
class Words {
 public:
  Words(const FlagTable& table, const std::vector<std::string>& words) : table_(table), words_(words) {}

  std::vector<Assignment> read() {
    for (bool flags = true; next_ < words_.size();) {
      const std::string& word = words_[next_++];
      if (flags && word == "--") {
        flags = false;
      } else if (flags && word.starts_with("--")) {
        long_flag(word);
      } else if (flags && is_short(word)) {
        short_flag(word);
      } else {
        bare(word);
      }
    }
    return std::move(said_);
  }

 private:
  /// "-tp", "-tp=8", "-O3"; a negative number is a value.
  [[nodiscard]] static bool is_short(const std::string& word) {
    return word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0 &&
           word[1] != '.';
  }
  [[nodiscard]] static bool is_flag(const std::string& word) {
    return word.starts_with("--") || is_short(word);
  }

  void long_flag(const std::string& word) {
    const size_t equals = word.find('=');
    bool on = true;
    Assignment said = begin_assignment(table_, std::string_view(word).substr(2, equals - 2), on);
    take_values(said, on, equals == std::string::npos ? nullptr : word.c_str() + equals + 1);
  }

  void short_flag(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(1, equals == std::string::npos ? equals : equals - 1);
    const char* attached = equals == std::string::npos ? nullptr : word.c_str() + equals + 1;
    const Flag* flag = table_.find_short(name);
    if (flag == nullptr && attached == nullptr && name.size() > 1) {  // -O3
      flag = table_.find_short(name.substr(0, 1));
      attached = word.c_str() + 2;
    }
    if (flag == nullptr) fail(ErrorKind::bad_input, "unrecognized arguments: ", word);
    Assignment said{flag, flag->name, cat("argument -", name), "", {}};
    take_values(said, true, attached);
  }

  void bare(const std::string& word) {
    const Flag* const flag = table_.positional();
    const bool taken = std::any_of(said_.begin(), said_.end(),
                                   [](const Assignment& said) { return said.source == "the bare word"; });
    if (flag == nullptr || taken) fail(ErrorKind::bad_input, "unrecognized arguments: ", word);
    said_.push_back({flag, flag->value_name, "the bare word", "", {word}});
  }

  void take_values(Assignment& said, bool on, const char* attached) {
    const Flag& flag = *said.flag;
    if (flag.kind == FlagKind::toggle) {
      if (attached != nullptr) {
        fail(ErrorKind::bad_input, said.source, ": takes no value (--", flag.name, " or --no-", flag.name,
             ")");
      }
      said.texts = {on ? "on" : "off"};
    } else if (attached != nullptr) {
      said.texts = {attached};
    } else {
      while (next_ < words_.size() && !is_flag(words_[next_])) {
        said.texts.push_back(words_[next_++]);
        if (flag.kind != FlagKind::list) break;
      }
    }
    if (said.texts.empty()) {
      fail(ErrorKind::bad_input, said.source, ": expected ",
           flag.kind == FlagKind::list ? "at least one argument" : "one argument");
    }
    said_.push_back(std::move(said));
  }

  const FlagTable& table_;
  const std::vector<std::string>& words_;
  size_t next_ = 0;
  std::vector<Assignment> said_;
};

}  // namespace

FlagTable::Match resolve_flag(const FlagTable& table, std::string_view long_name) {
  if (const FlagTable::Match exact = table.find(long_name); exact.flag != nullptr) return exact;
  const std::vector<FlagTable::Match> matches = table.starting_with(long_name);
  const bool one = std::all_of(matches.begin(), matches.end(), [&](const FlagTable::Match& match) {
    return match.flag == matches.front().flag && match.on == matches.front().on;
  });
  if (!matches.empty() && !long_name.empty() && one) return matches.front();
  if (!matches.empty() && !long_name.empty()) {
    std::vector<std::string> names;
    for (const FlagTable::Match& match : matches) names.push_back(match.name);
    fail(ErrorKind::bad_input, "ambiguous option: --", long_name, " could match ", listed(names));
  }
  const std::vector<std::string> similar = table.similar(long_name);
  fail(ErrorKind::bad_input, "unrecognized arguments: --", long_name,
       similar.empty() ? std::string() : cat(" (did you mean ", listed(similar), "?)"));
}

Assignment begin_assignment(const FlagTable& table, std::string_view name, bool& on) {
  const size_t dot = name.find('.');
  const FlagTable::Match match = resolve_flag(table, name.substr(0, dot));
  on = match.on;
  Assignment said;
  said.flag = match.flag;
  said.name = match.name;
  if (said.flag->kind == FlagKind::toggle && said.name.starts_with("no-") &&
      table.find(said.name.substr(3)).flag == said.flag) {
    said.name.erase(0, 3);  // --x and --no-x are one argument
  }
  said.source = cat("argument --", match.name);
  if (dot == std::string_view::npos) return said;
  said.path = name.substr(dot + 1);
  if (said.flag->kind != FlagKind::object) {
    fail(ErrorKind::bad_input, said.source, ": takes no keys (--", match.name, ".", said.path, ")");
  }
  said.source += cat(".", said.path);
  return said;
}

std::vector<Assignment> read_words(const FlagTable& table, const std::vector<std::string>& words) {
  return Words(table, words).read();
}

}  // namespace glint
