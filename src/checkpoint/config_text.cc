#include "checkpoint/config_text.h"

#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace glint {

namespace {

/// Byte positions of one member of the outermost object.
struct Member {
  size_t key_begin;
  size_t value_begin;
  size_t value_end;
  std::string key;
};

/// Finds the members of an object that is known to be valid JSON.
class MemberScanner {
 public:
  explicit MemberScanner(std::string_view text) : text_(text) {}

  std::vector<Member> scan() {
    std::vector<Member> members;
    skip_space();
    expect('{');
    skip_space();
    while (peek() != '}') {
      Member member{};
      member.key_begin = at_;
      skip_string();
      member.key = Json::parse(text_.substr(member.key_begin, at_ - member.key_begin)).get<std::string>();
      skip_space();
      expect(':');
      skip_space();
      member.value_begin = at_;
      skip_value();
      member.value_end = at_;
      members.push_back(std::move(member));
      skip_space();
      if (peek() == ',') ++at_;
      skip_space();
    }
    return members;
  }

 private:
  [[nodiscard]] char peek() const {
    GLINT_CHECK(at_ < text_.size());
    return text_[at_];
  }
  void expect(char c) {
    GLINT_CHECK(peek() == c);
    ++at_;
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  void skip_string() {
    expect('"');
    while (peek() != '"') at_ += peek() == '\\' ? 2 : 1;
    ++at_;
  }
  void skip_value() {
    int depth = 0;
    do {
      const char c = peek();
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        --depth;
        ++at_;
      } else if (depth > 0) {
        ++at_;
      } else {
        at_ = text_.find_first_of(" \t\r\n,}", at_);  // a number, true, false or null
      }
    } while (depth > 0);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string set_json_member(std::string_view text, std::string_view key, std::string_view value) {
  const std::vector<Member> members = MemberScanner(text).scan();
  GLINT_CHECK(!members.empty());
  for (const Member& member : members) {
    if (member.key != key) continue;
    return cat(text.substr(0, member.value_begin), value, text.substr(member.value_end));
  }
  const size_t end = members.back().value_end;
  return cat(text.substr(0, end), ",\n  \"", key, "\": ", value, text.substr(end));
}

std::string remove_json_member(std::string_view text, std::string_view key) {
  const std::vector<Member> members = MemberScanner(text).scan();
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].key != key) continue;
    const bool first = i == 0;
    const bool only = members.size() == 1;
    const size_t begin = first ? members[i].key_begin : members[i - 1].value_end;
    const size_t end = first && !only ? members[i + 1].key_begin : members[i].value_end;
    return cat(text.substr(0, begin), text.substr(end));
  }
  return std::string(text);
}

}  // namespace glint
