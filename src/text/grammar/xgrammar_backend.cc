// GrammarCompiler by xgrammar.
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_limits.h"
#include "text/grammar/schema_check.h"
#include "text/grammar/schema_form.h"
#include "text/grammar/work_limit.h"
#include "text/grammar/xgrammar_log.h"

namespace glint {

namespace {

/// White space in a row inside JSON: enough for deep indentation, but no endless run of newlines.
constexpr size_t kBlanksMax = 64;

/// One line of bounded length.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  constexpr size_t kBytesMax = 300;
  if (text.size() > kBytesMax) text = text.substr(0, kBytesMax) + "...";
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

class XgrammarMatch final : public GrammarMatch {
 public:
  /// `bounds_blanks`: tokens of white space alone are excluded after kBlanksMax of them, unless nothing else
  /// is left.
  XgrammarMatch(const xgrammar::CompiledGrammar& compiled, std::vector<int> ends, bool bounds_blanks,
                std::shared_ptr<const TokenTable> table)
      : matcher_(compiled, std::move(ends)), bounds_blanks_(bounds_blanks), table_(std::move(table)) {}

  void fill(std::span<uint32_t> mask) override {
    if (!given_up_ && !matcher_.IsTerminated() && in_time([&] { fill_bounded(mask); })) return;
    std::fill(mask.begin(), mask.end(), 0);
  }

  bool accept(TokenId token) override {
    bool accepted = false;
    if (given_up_ || !in_time([&] { accepted = matcher_.AcceptToken(token); })) return true;
    if (accepted && bounds_blanks_) runs_.push_back(run_behind(table_->text(token)));
    return accepted;
  }

  void rollback(int64_t tokens) override {
    if (given_up_) return;
    matcher_.Rollback(static_cast<int>(tokens));
    if (bounds_blanks_) runs_.resize(runs_.size() - static_cast<size_t>(tokens));
  }

  [[nodiscard]] bool given_up() const override { return given_up_; }

 private:
  /// False, and the end of this match, if `work` takes longer than is left, or if the library fails.
  template <class Work>
  bool in_time(const Work& work) {
    try {
      const WorkLimit limit(left_);
      work();
      left_ = std::min<std::chrono::microseconds>(kMatchPause, left_ - limit.used() + kMatchPace);
    } catch (const std::exception&) {
      given_up_ = true;
    }
    given_up_ = given_up_ || left_.count() <= 0;
    return !given_up_;
  }

  void fill_bounded(std::span<uint32_t> mask) {
    fill_all(mask);
    if (!bounds_blanks_ || runs_.empty() || runs_.back() < kBlanksMax) return;
    for (const TokenId id : table_->blanks())
      mask[static_cast<size_t>(id) / 32] &= ~(1U << (static_cast<uint32_t>(id) % 32));
    if (std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; })) fill_all(mask);
  }

  void fill_all(std::span<uint32_t> mask) {
    auto shape = static_cast<int64_t>(mask.size());
    int64_t stride = 1;
    DLTensor tensor{};
    tensor.data = mask.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = xgrammar::GetBitmaskDLType();
    tensor.shape = &shape;
    tensor.strides = &stride;
    matcher_.FillNextTokenBitmask(&tensor);
    // The library may leave bits of ids that are no text; the ends are ours to tell.
    const std::span<const uint32_t> ordinary = table_->ordinary().words();
    for (size_t word = 0; word < mask.size(); ++word) mask[word] &= ordinary[word];
    if (!matcher_.IsCompleted()) return;
    for (const int id : matcher_.GetStopTokenIds())
      mask[static_cast<size_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32);
  }

  /// The white space at the end of what is written, `text` being its last token.
  [[nodiscard]] size_t run_behind(std::string_view text) const {
    const size_t last = text.find_last_not_of(" \n\r\t");
    if (last != std::string_view::npos) return text.size() - last - 1;
    return text.size() + (runs_.empty() ? 0 : runs_.back());
  }

  xgrammar::GrammarMatcher matcher_;
  bool bounds_blanks_;
  std::shared_ptr<const TokenTable> table_;
  std::vector<size_t> runs_;  // behind each token
  std::chrono::microseconds left_ = kMatchPause;
  bool given_up_ = false;
};

class XgrammarCompiled final : public CompiledGrammar {
 public:
  XgrammarCompiled(xgrammar::CompiledGrammar compiled, bool bounds_blanks,
                   std::shared_ptr<const TokenTable> table)
      : compiled_(std::move(compiled)), bounds_blanks_(bounds_blanks), table_(std::move(table)) {}
  [[nodiscard]] std::unique_ptr<GrammarMatch> start(std::span<const TokenId> ends) const override {
    const std::span<const TokenId> own = ends.empty() ? std::span<const TokenId>(table_->eos()) : ends;
    return std::make_unique<XgrammarMatch>(compiled_, std::vector<int>(own.begin(), own.end()),
                                           bounds_blanks_, table_);
  }
  [[nodiscard]] size_t memory_bytes() const override { return compiled_.MemorySizeBytes(); }

 private:
  xgrammar::CompiledGrammar compiled_;
  bool bounds_blanks_;
  std::shared_ptr<const TokenTable> table_;
};

/// Follows a random text for a while: a grammar that can be read in ever more ways is found out before a
/// request's steps meet it.
void check_pace(const CompiledGrammar& grammar, const TokenTable& table) {
  constexpr int kTokens = 200;
  const auto match = grammar.start({});
  TokenMask mask(table.vocab_size());
  std::vector<TokenId> ids;
  std::minstd_rand random(1);
  for (int i = 0; i < kTokens && !match->given_up(); ++i) {
    match->fill(mask.words());
    ids.clear();
    for (size_t word = 0; word < mask.words().size(); ++word) {
      for (uint32_t bits = mask.words()[word] & table.ordinary().words()[word]; bits != 0; bits &= bits - 1)
        ids.push_back(static_cast<TokenId>(word * 32 + static_cast<size_t>(__builtin_ctz(bits))));
    }
    if (ids.empty()) break;
    match->accept(ids[random() % ids.size()]);
  }
  if (!match->given_up()) return;
  fail(ErrorKind::bad_input, "the grammar can be read in too many ways: following it takes more than ",
       kMatchPace.count(),
       " ms a token; let each text have one reading, and repeat with * or + instead of rules that call "
       "themselves twice");
}

class XgrammarCompiler final : public GrammarCompiler {
 public:
  XgrammarCompiler(std::shared_ptr<const TokenTable> table, std::chrono::milliseconds most)
      : table_(std::move(table)), most_(most), compiler_(tokenizer_info(*table_), 1, false) {}

  [[nodiscard]] std::shared_ptr<const CompiledGrammar> compile(const GrammarSource& source) const override {
    XgrammarWarnings warnings;
    try {
      const WorkLimit limit(most_);
      const xgrammar::Grammar grammar = parse(source);
      if (!source.lenient && !warnings.lines().empty()) {
        fail(ErrorKind::bad_input, "the schema cannot be enforced: ", one_line(warnings.lines().front()));
      }
      check_grammar_size(grammar.ToString());
      auto compiled = std::make_shared<XgrammarCompiled>(
          compiler_.CompileGrammar(grammar), source.kind == GrammarSource::Kind::json_schema, table_);
      check_pace(*compiled, *table_);
      return compiled;
    } catch (const Error&) {
      throw;
    } catch (const WorkLimitReached&) {
      fail(ErrorKind::bad_input, "the grammar takes more than ", most_.count(),
           " ms to compile; use fewer parts, smaller counts or narrower classes of characters");
    } catch (const std::bad_alloc&) {
      fail(ErrorKind::bad_input, "the grammar needs more memory than there is");
    } catch (const std::exception& failure) {
      fail(ErrorKind::bad_input, one_line(failure.what()));
    }
  }

 private:
  static xgrammar::TokenizerInfo tokenizer_info(const TokenTable& table) {
    std::vector<std::string> texts(static_cast<size_t>(table.vocab_size()));
    for (size_t id = 0; id < texts.size(); ++id) texts[id] = table.text(static_cast<TokenId>(id));
    const std::vector<int32_t> stops(table.eos().begin(), table.eos().end());
    return xgrammar::TokenizerInfo(texts, xgrammar::VocabType::RAW, static_cast<int>(texts.size()), stops);
  }

  static xgrammar::Grammar parse(const GrammarSource& source) {
    switch (source.kind) {
      case GrammarSource::Kind::json_schema:
        check_schema_text(source.text, source.lenient);
        return from_schema(source);
      case GrammarSource::Kind::regex:
        check_regex_text(source.text);
        return xgrammar::Grammar::FromRegex(source.text);
      case GrammarSource::Kind::ebnf:
        break;
    }
    check_grammar_text(source.text);
    return xgrammar::Grammar::FromEBNF(source.text);
  }

  static xgrammar::Grammar from_schema(const GrammarSource& source) {
    xgrammar::Grammar json =
        xgrammar::Grammar::FromJSONSchema(enforceable_schema(source.text, source.lenient), true);
    const std::string printed = json.ToString();
    const std::string bounded = bound_values(printed);
    return bounded == printed ? json : xgrammar::Grammar::FromEBNF(bounded);
  }

  std::shared_ptr<const TokenTable> table_;
  std::chrono::milliseconds most_;
  mutable xgrammar::GrammarCompiler compiler_;  // thread-safe by its own account
};

}  // namespace

bool grammars_built() {
  return true;
}

std::unique_ptr<const GrammarCompiler> make_grammar_compiler(std::shared_ptr<const TokenTable> table,
                                                             std::chrono::milliseconds most) {
  return std::make_unique<XgrammarCompiler>(std::move(table), most);
}

}  // namespace glint
