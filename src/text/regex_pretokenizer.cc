#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/pretokenizer.h"
#include "text/regex_translation.h"

namespace glint {

namespace {

constexpr size_t kJitStackMin = 32 << 10;
constexpr size_t kJitStackMax = 32 << 20;

template <auto Free>
struct FreeWith {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, FreeWith<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreeWith<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, FreeWith<pcre2_jit_stack_free>>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string pcre_message(int code) {
  unsigned char buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

Code compile(std::string_view pattern, std::string_view what) {
  int error = 0;
  size_t offset = 0;
  Code code(
      pcre2_compile(bytes_of(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  if (!code) fail(ErrorKind::bad_input, what, ": pre_tokenizer pattern: ", pcre_message(error));
  // Where PCRE2 has no JIT the interpreter gives the same matches.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

/// What one thread needs to match. The text is known to be valid UTF-8: letting PCRE2 check it at each match
/// would make the whole quadratic.
class Matcher {
 public:
  Matcher(const pcre2_code& code, std::string_view text)
      : code_(code), text_(text), data_(pcre2_match_data_create_from_pattern(&code, nullptr)) {
    GLINT_CHECK(data_);
  }

  /// The next match at or behind `from`: its start and end, or false.
  bool find(size_t from, size_t& start, size_t& end) {
    int found = match(from);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !stack_) {
      grow_stack();
      found = match(from);
    }
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found < 0) {
      fail(ErrorKind::bad_input, "the pre_tokenizer pattern gave up on this text: ", pcre_message(found));
    }
    const size_t* offsets = pcre2_get_ovector_pointer(data_.get());
    start = offsets[0];
    end = offsets[1];
    return true;
  }

 private:
  int match(size_t from) {
    return pcre2_match(&code_, bytes_of(text_), text_.size(), from, PCRE2_NO_UTF_CHECK, data_.get(),
                       context_.get());
  }

  /// The default of 32 KiB does for nearly all texts, and a stack of its own costs a system call.
  void grow_stack() {
    context_.reset(pcre2_match_context_create(nullptr));
    stack_.reset(pcre2_jit_stack_create(kJitStackMin, kJitStackMax, nullptr));
    GLINT_CHECK(context_ && stack_);
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }

  const pcre2_code& code_;
  std::string_view text_;
  MatchData data_;
  MatchContext context_;
  JitStack stack_;
};

std::string every_character() {
  std::string text;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code < 0xD800 || code > 0xDFFF) append_utf8(text, code);
  }
  return text;
}

/// The members of a class, found by letting it match a text of all characters in order.
CodePointSet class_members(const std::string& pcre_class, const std::string& all) {
  const Code code = compile(cat("[", pcre_class, "]+"), "glint");
  Matcher matcher(*code, all);
  CodePointSet set;
  size_t start = 0;
  size_t end = 0;
  while (matcher.find(end, start, end)) {
    size_t last = end - 1;
    while ((static_cast<unsigned char>(all[last]) & 0xC0U) == 0x80U) --last;
    set.push_back({utf8_step(all, start).code, utf8_step(all, last).code});
  }
  return set;
}

class RegexPreTokenizer final : public PreTokenizer {
 public:
  RegexPreTokenizer(std::string_view pattern, std::string_view what) {
    std::string all;
    const auto members = [&all](const std::string& pcre_class) {
      if (all.empty()) all = every_character();
      return class_members(pcre_class, all);
    };
    code_ = compile(translate_to_pcre(pattern, what, members), what);
  }

  /// Matches and what lies between them. Like the library's iterator, a match of nothing just behind the last
  /// match does not count and the search goes on one character later; elsewhere it ends the piece before it.
  void split(std::string_view text, std::vector<uint32_t>& ends) const override {
    Matcher matcher(*code_, text);
    uint32_t piece_start = 0;
    const auto cut = [&](size_t at) {
      if (at == piece_start) return;
      piece_start = static_cast<uint32_t>(at);
      ends.push_back(piece_start);
    };
    size_t from = 0;
    size_t last_end = SIZE_MAX;
    size_t start = 0;
    size_t end = 0;
    while (from <= text.size() && matcher.find(from, start, end)) {
      if (start == end && end == last_end) {
        from += from < text.size() ? utf8_step(text, from).bytes : 1;
        continue;
      }
      cut(start);
      cut(end);
      from = last_end = end;
    }
    cut(text.size());
  }

 private:
  Code code_;
};

}  // namespace

std::unique_ptr<const PreTokenizer> make_regex_pretokenizer(std::string_view pattern, std::string_view what) {
  return std::make_unique<RegexPreTokenizer>(pattern, what);
}

}  // namespace glint
