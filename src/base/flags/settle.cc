#include <algorithm>

#include "base/error.h"
#include "base/flags/assignment.h"
#include "base/flags/object_value.h"

namespace glint {

namespace {

std::string joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += std::string(out.empty() ? "" : " ").append(text);
  return out;
}

std::string shown(const Flag& flag, const Assignment& said) {
  if (flag.is_secret) return "";
  if (flag.kind == FlagKind::toggle) return cat(" (", said.texts.front(), ")");
  return cat(" ", joined(said.texts));
}

/// The plain forms of the texts; throws with the source before the reason.
std::vector<std::string> read_texts(const Assignment& said) {
  std::vector<std::string> plain;
  for (const std::string& text : said.texts) {
    if (text.empty()) fail(ErrorKind::bad_input, said.source, ": expected a value, got an empty text");
    try {
      plain.push_back(said.flag->read(text));
    } catch (const Error& error) {
      std::string reason = error.what();
      // Readers shared with other commands name the flag themselves.
      if (const std::string own = cat("argument --", said.flag->name, ": "); reason.starts_with(own)) {
        reason.erase(0, own.size());
      }
      throw Error(error.kind(), cat(said.source, ": ", reason));
    }
  }
  return plain;
}

void settle_object(const Flag& flag, const std::vector<Assignment>& said,
                   std::vector<std::string>& warnings) {
  ObjectValue value(flag, warnings);
  for (const Assignment& one : said) {
    if (one.texts.front().empty())
      fail(ErrorKind::bad_input, one.source, ": expected a value, got an empty text");
    value.merge(one);
  }
  flag.store_object(value.value());
}

}  // namespace

void settle(const Flag& flag, const std::vector<Assignment>& said, std::vector<std::string>& warnings) {
  if (said.empty()) return;
  if (!flag.refused_reason.empty()) {
    fail(ErrorKind::unsupported, said.front().source, ": ", flag.refused_reason);
  }
  if (!flag.no_effect_reason.empty()) {
    warnings.push_back(
        cat("--", said.front().name, " has no effect in this engine (", flag.no_effect_reason, ")"));
  }
  if (flag.kind == FlagKind::object) return settle_object(flag, said, warnings);
  const Assignment* last = nullptr;
  std::vector<std::string> last_plain;
  for (const Assignment& one : said) {
    std::vector<std::string> plain = read_texts(one);
    if (last != nullptr && plain != last_plain) {
      if (one.name != last->name) {
        fail(ErrorKind::bad_input, last->source, shown(flag, *last), " and ", one.source, shown(flag, one),
             " name the same setting and differ: give one of them");
      }
      warnings.push_back(
          cat(one.source, ": given more than once; the last one", shown(flag, one), " counts"));
    }
    last = &one;
    last_plain = std::move(plain);
  }
  flag.store(last->texts);
}

}  // namespace glint
