// Grammars over a model's vocabulary: compiled once, followed token by token. The only place that knows the
// library behind it is xgrammar_backend.cc; a build without it (GLINT_XGRAMMAR=OFF) compiles nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/grammar/token_table.h"

namespace glint {

/// What a text has to be.
struct GrammarSource {
  enum class Kind : uint8_t {
    json_schema,  // a JSON text that the schema `text` accepts
    regex,        // matched by the regular expression as a whole
    ebnf,         // GBNF as of llama.cpp and xgrammar, from the rule `root`
  };
  Kind kind = Kind::json_schema;
  std::string text;
  /// json_schema: parts of the schema that the library cannot enforce are left out instead of refused.
  bool lenient = false;

  [[nodiscard]] std::string key() const;
};

/// What following a text may take, in processor time: kMatchPace a call on average, and kMatchPause in one.
/// An ordinary grammar takes 0.1 ms; one that can be read in more and more ways takes longer the longer the
/// text is.
inline constexpr std::chrono::milliseconds kMatchPace{10};
inline constexpr std::chrono::milliseconds kMatchPause{250};

/// One text on its way. Not thread-safe; one call at a time.
class GrammarMatch {
 public:
  virtual ~GrammarMatch() = default;
  /// Sets the bits of exactly the ids that may come next: tokens of text, and the ends if the text is
  /// complete. After an end, and once it has given_up(): nothing.
  virtual void fill(std::span<uint32_t> mask) = 0;
  /// False, and nothing changes, if the token may not stand here. Once it has given_up() any token may.
  virtual bool accept(TokenId token) = 0;
  virtual void rollback(int64_t tokens) = 0;
  /// Following the text took too long (kMatchPause, kMatchPace): nothing may come any more, so that the
  /// request ends with an error instead of holding up the others of its steps.
  [[nodiscard]] virtual bool given_up() const = 0;
};

/// Immutable, any number of matches at once.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  /// `ends`: the ids that end the text where it is complete; empty: the table's eos.
  [[nodiscard]] virtual std::unique_ptr<GrammarMatch> start(std::span<const TokenId> ends) const = 0;
  [[nodiscard]] virtual size_t memory_bytes() const = 0;
};

/// True if grammars can be compiled at all.
bool grammars_built();
inline constexpr const char* kGrammarsNotBuilt =
    "this glint was built without structured output (GLINT_XGRAMMAR=OFF); build it with -DGLINT_XGRAMMAR=ON";

class GrammarCompiler {
 public:
  virtual ~GrammarCompiler() = default;
  /// Throws bad_input (one line: which part, and why) for a source that is malformed, that cannot be
  /// enforced, that is too large or takes too long; unsupported without the library. Thread-safe. What it
  /// costs is bounded by the limits of schema_check.h and grammar_limits.h, and by the time that the compiler
  /// was made with.
  [[nodiscard]] virtual std::shared_ptr<const CompiledGrammar> compile(const GrammarSource& source) const = 0;
};

/// `most`: processor time of one compilation.
std::unique_ptr<const GrammarCompiler> make_grammar_compiler(std::shared_ptr<const TokenTable> table,
                                                             std::chrono::milliseconds most);

}  // namespace glint
