// GrammarCompiler of a build without a grammar library.
#include "base/error.h"
#include "text/grammar/grammar.h"

namespace glint {

namespace {

class AbsentCompiler final : public GrammarCompiler {
 public:
  [[nodiscard]] std::shared_ptr<const CompiledGrammar> compile(
      const GrammarSource& /*source*/) const override {
    fail(ErrorKind::unsupported, kGrammarsNotBuilt);
  }
};

}  // namespace

bool grammars_built() {
  return false;
}

std::unique_ptr<const GrammarCompiler> make_grammar_compiler(std::shared_ptr<const TokenTable> /*table*/,
                                                             std::chrono::milliseconds /*most*/) {
  return std::make_unique<AbsentCompiler>();
}

}  // namespace glint
