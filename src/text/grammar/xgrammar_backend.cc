// GrammarCompiler by xgrammar.
#include <xgrammar/xgrammar.h>

#include <algorithm>

#include "base/error.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_limits.h"
#include "text/grammar/schema_check.h"
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
    if (matcher_.IsTerminated()) {
      std::fill(mask.begin(), mask.end(), 0);
      return;
    }
    fill_all(mask);
    if (!bounds_blanks_ || runs_.empty() || runs_.back() < kBlanksMax) return;
    for (const TokenId id : table_->blanks())
      mask[static_cast<size_t>(id) / 32] &= ~(1U << (static_cast<uint32_t>(id) % 32));
    if (std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; })) fill_all(mask);
  }

  bool accept(TokenId token) override {
    if (!matcher_.AcceptToken(token)) return false;
    if (bounds_blanks_) runs_.push_back(run_behind(table_->text(token)));
    return true;
  }

  void rollback(int64_t tokens) override {
    matcher_.Rollback(static_cast<int>(tokens));
    if (bounds_blanks_) runs_.resize(runs_.size() - static_cast<size_t>(tokens));
  }

 private:
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

class XgrammarCompiler final : public GrammarCompiler {
 public:
  explicit XgrammarCompiler(std::shared_ptr<const TokenTable> table)
      : table_(std::move(table)), compiler_(tokenizer_info(*table_), 1, false) {}

  [[nodiscard]] std::shared_ptr<const CompiledGrammar> compile(const GrammarSource& source) const override {
    XgrammarWarnings warnings;
    try {
      const xgrammar::Grammar grammar = parse(source);
      if (!source.lenient && !warnings.lines().empty()) {
        fail(ErrorKind::bad_input, "the schema cannot be enforced: ", one_line(warnings.lines().front()));
      }
      check_grammar_size(grammar.ToString());
      return std::make_shared<XgrammarCompiled>(compiler_.CompileGrammar(grammar),
                                                source.kind == GrammarSource::Kind::json_schema, table_);
    } catch (const Error&) {
      throw;
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
    xgrammar::Grammar json = xgrammar::Grammar::FromJSONSchema(source.text, true);
    const std::string printed = json.ToString();
    const std::string bounded = bound_strings(printed);
    return bounded == printed ? json : xgrammar::Grammar::FromEBNF(bounded);
  }

  std::shared_ptr<const TokenTable> table_;
  mutable xgrammar::GrammarCompiler compiler_;  // thread-safe by its own account
};

}  // namespace

bool grammars_built() {
  return true;
}

std::unique_ptr<const GrammarCompiler> make_grammar_compiler(std::shared_ptr<const TokenTable> table) {
  return std::make_unique<XgrammarCompiler>(std::move(table));
}

}  // namespace glint
