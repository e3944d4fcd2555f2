#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/parse_expression.h"
#include "text/jinja/token_reader.h"

namespace glint::jinja {

namespace {

constexpr int kNestingMax = 100;

using StatementPtr = std::unique_ptr<Statement>;

class Parser {
 public:
  Parser(std::string_view source, std::string_view what)
      : tokens_(tokenize(source, what), what), expressions_(tokens_) {}

  Body parse() {
    Body out = body({});
    GLINT_CHECK(tokens_.at(TokenKind::end));
    return out;
  }

 private:
  StatementPtr make(StatementKind kind) {
    auto out = std::make_unique<Statement>();
    out->kind = kind;
    out->place = tokens_.peek().place;
    return out;
  }

  [[nodiscard]] bool at_tag_of(std::initializer_list<std::string_view> ends) const {
    return tokens_.at(TokenKind::block_begin) && tokens_.peek(1).kind == TokenKind::name &&
           std::find(ends.begin(), ends.end(), tokens_.peek(1).value) != ends.end();
  }

  /// Statements up to a tag whose first word is one of `ends`; that word is under the finger then.
  Body body(std::initializer_list<std::string_view> ends) {
    if (++nesting_ > kNestingMax) tokens_.error("statements are nested too deeply");
    const Place begin = tokens_.peek().place;
    Body out;
    while (!tokens_.at(TokenKind::end)) {
      if (at_tag_of(ends)) {
        tokens_.take();
        --nesting_;
        return out;
      }
      add_next(out);
    }
    if (ends.size() > 0) {
      std::string wanted;
      for (const std::string_view end : ends) wanted += cat(wanted.empty() ? "" : " or ", "{% ", end, " %}");
      syntax_error(tokens_.what(), begin, cat("the template ends where ", wanted, " was expected"));
    }
    --nesting_;
    return out;
  }

  void add_next(Body& out) {
    if (tokens_.at(TokenKind::text)) {
      StatementPtr text = make(StatementKind::text);
      text->text = tokens_.take().value;
      out.push_back(std::move(text));
    } else if (tokens_.at(TokenKind::print_begin)) {
      tokens_.take();
      StatementPtr print = make(StatementKind::print);
      print->value = expressions_.tuple();
      tokens_.expect(TokenKind::print_end, "}}");
      out.push_back(std::move(print));
    } else {
      tokens_.expect(TokenKind::block_begin, "a tag");
      statement(out);
    }
  }

  void end_tag() { tokens_.expect(TokenKind::block_end, "%}"); }

  /// Takes the word of a closing tag and the tag's end.
  void close(std::string_view word) {
    if (!tokens_.skip_name(word)) tokens_.error(cat("expected {% ", word, " %}"));
    end_tag();
  }

  void statement(Body& out) {
    const Place place = tokens_.peek().place;
    const std::string word = tokens_.expect_name("a statement");
    if (word == "if") return out.push_back(condition());
    if (word == "for") return out.push_back(loop());
    if (word == "set") return out.push_back(assignment());
    if (word == "macro") return out.push_back(macro());
    if (word == "call") return out.push_back(call_block());
    if (word == "filter") return out.push_back(filter_block());
    if (word == "with") return out.push_back(with());
    if (word == "break" || word == "continue") return out.push_back(jump(word, place));
    if (word == "generation") {  // marks what the assistant wrote, for training; prints its body
      end_tag();
      for (auto& part : body({"endgeneration"})) out.push_back(std::move(part));
      return close("endgeneration");
    }
    tokens_.unsupported(place, cat("the statement '", word,
                                   "' is not supported here; there are if, for, set, macro, "
                                   "call, filter, with, raw, break, continue and generation"));
  }

  StatementPtr condition() {
    StatementPtr out = make(StatementKind::condition);
    out->value = expressions_.tuple();
    end_tag();
    out->body = body({"elif", "else", "endif"});
    if (tokens_.skip_name("elif")) {
      ++nesting_;  // body() has the bound
      out->otherwise.push_back(condition());
      --nesting_;
      return out;
    }
    if (tokens_.skip_name("else")) {
      end_tag();
      out->otherwise = body({"endif"});
    }
    close("endif");
    return out;
  }

  Target targets() {
    Target out;
    const bool parenthesis = tokens_.skip_op("(");
    out.names.push_back(target_name());
    while (tokens_.skip_op(",")) {
      out.is_tuple = true;
      if (!tokens_.at(TokenKind::name) || tokens_.at_name("in")) break;
      out.names.push_back(target_name());
    }
    if (parenthesis) tokens_.expect_op(")");
    return out;
  }

  std::string target_name() {
    for (const char* const word : {"true", "false", "none", "True", "False", "None", "loop"}) {
      if (tokens_.at_name(word)) tokens_.error(cat("'", word, "' cannot be assigned to"));
    }
    return tokens_.expect_name("a name");
  }

  StatementPtr loop() {
    StatementPtr out = make(StatementKind::loop);
    out->target = targets();
    if (!tokens_.skip_name("in")) tokens_.error(cat("expected 'in', found ", tokens_.found()));
    out->value = expressions_.tuple(/*with_choice=*/false);
    if (tokens_.skip_name("if")) out->filter = expressions_.expression();
    if (tokens_.at_name("recursive")) tokens_.unsupported(out->place, "recursive loops are not supported");
    end_tag();
    ++loops_;
    out->body = body({"else", "endfor"});
    --loops_;
    if (tokens_.skip_name("else")) {
      end_tag();
      out->otherwise = body({"endfor"});
    }
    close("endfor");
    return out;
  }

  StatementPtr jump(const std::string& word, Place place) {
    if (loops_ == 0) syntax_error(tokens_.what(), place, cat("'", word, "' outside of a loop"));
    StatementPtr out = make(word == "break" ? StatementKind::stop : StatementKind::next);
    end_tag();
    return out;
  }

  StatementPtr assignment() {
    StatementPtr out = make(StatementKind::assign);
    out->target = targets();
    if (!out->target.is_tuple && tokens_.skip_op("."))
      out->target.member = tokens_.expect_name("a member's name");
    if (tokens_.skip_op("=")) {
      out->value = expressions_.tuple();
      end_tag();
      return out;
    }
    out->kind = StatementKind::assign_block;
    if (tokens_.skip_op("|")) out->value = expressions_.block_filters();
    end_tag();
    out->body = body({"endset"});
    close("endset");
    return out;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> out;
    tokens_.expect_op("(");
    while (!tokens_.skip_op(")")) {
      if (!out.empty()) {
        tokens_.expect_op(",");
        if (tokens_.skip_op(")")) break;
      }
      Parameter parameter;
      parameter.name = target_name();
      if (tokens_.skip_op("=")) {
        parameter.fallback = expressions_.expression();
      } else if (!out.empty() && out.back().fallback != nullptr) {
        tokens_.error("a parameter without default behind one with a default");
      }
      out.push_back(std::move(parameter));
    }
    return out;
  }

  /// The body of a macro; a loop around it is not its loop.
  void macro_body(Statement& out, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const size_t first = tokens_.position();
    out.body = body({end});
    out.takes_varargs = tokens_.names_since(first, "varargs");
    out.takes_kwargs = tokens_.names_since(first, "kwargs");
    loops_ = loops;
    close(end);
  }

  StatementPtr macro() {
    StatementPtr out = make(StatementKind::macro);
    out->text = target_name();
    out->parameters = parameters();
    end_tag();
    macro_body(*out, "endmacro");
    return out;
  }

  StatementPtr call_block() {
    StatementPtr out = make(StatementKind::call_block);
    if (tokens_.at_op("(")) out->parameters = parameters();
    out->value = expressions_.expression();
    if (out->value->kind != ExpressionKind::call) tokens_.error("expected a call");
    end_tag();
    macro_body(*out, "endcall");
    return out;
  }

  StatementPtr filter_block() {
    StatementPtr out = make(StatementKind::filter_block);
    out->value = expressions_.block_filters();
    end_tag();
    out->body = body({"endfilter"});
    close("endfilter");
    return out;
  }

  StatementPtr with() {
    StatementPtr out = make(StatementKind::scope);
    while (!tokens_.at(TokenKind::block_end)) {
      if (!out->bindings.empty()) tokens_.expect_op(",");
      Target target;
      target.names.push_back(target_name());
      tokens_.expect_op("=");
      ExpressionPtr value = expressions_.expression();
      out->bindings.emplace_back(std::move(target), std::move(value));
    }
    end_tag();
    out->body = body({"endwith"});
    close("endwith");
    return out;
  }

  TokenReader tokens_;
  ExpressionParser expressions_;
  int nesting_ = 0;
  int loops_ = 0;
};

}  // namespace

Body parse(std::string_view source, std::string_view what) {
  return Parser(source, what).parse();
}

}  // namespace glint::jinja
