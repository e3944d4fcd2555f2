// Random walks through constraints, for tests/grammar/*.py: reads one JSON object a line, writes one. Each
// walk also makes and takes back random drafts, and checks that the masks are the same afterwards.
//   {"kind": "json_schema" | "regex" | "ebnf", "text": ..., "lenient": bool, "seed": n, "walks": n,
//   "tokens_max": n}
//     -> {"texts": [null or the finished text, ...]} or {"error": ...}
//   {"kind": "tools", "tools": [...], "must": bool, "one_only": bool, "named": name, ...}
//     -> {"answers": [null or [{"name", "arguments"}, ...], ...]}
#include <iostream>
#include <random>

#include "base/error.h"
#include "text/grammar/grammar_cache.h"
#include "text/grammar/text_constraint.h"
#include "text/grammar/tool_call_constraint.h"
#include "text/output_parser.h"
#include "text/python_json.h"

namespace glint {
namespace {

class Walker {
 public:
  Walker(const Tokenizer& tokenizer, const TokenTable& table, const OutputTags& tags, uint32_t seed)
      : tokenizer_(tokenizer), table_(table), random_(seed) {
    for (const TokenId id : table.eos()) closing_.push_back(id);
    for (const OutputTag tag : {OutputTag::value_close, OutputTag::call_close, OutputTag::key_close})
      closing_.push_back(tags.id(tag));
  }

  /// The tokens up to an eos; empty if none came within tokens_max. `everything`: what an empty mask stands
  /// for.
  std::vector<TokenId> walk(TokenConstraint& constraint, const TokenMask& everything, int tokens_max) {
    std::vector<TokenId> tokens;
    while (static_cast<int>(tokens.size()) < tokens_max) {
      if (random_() % 4 == 0) draft_and_take_back(constraint, everything);
      const TokenId token = pick(mask_of(constraint, everything));
      if (token < 0) return {};
      tokens.push_back(token);
      for (const TokenId id : table_.eos()) {
        if (id == token) return tokens;
      }
      constraint.push(token);
    }
    return {};
  }
  [[nodiscard]] int64_t dead_ends() const { return dead_ends_; }

 private:
  static std::vector<uint32_t> mask_of(TokenConstraint& constraint, const TokenMask& everything) {
    const auto allowed = constraint.allowed();
    const auto words = allowed.empty() ? everything.words() : allowed;
    return {words.begin(), words.end()};
  }

  void draft_and_take_back(TokenConstraint& constraint, const TokenMask& everything) {
    const std::vector<uint32_t> before = mask_of(constraint, everything);
    const int drafts = 1 + static_cast<int>(random_() % 8);
    int made = 0;
    for (; made < drafts; ++made) {
      const TokenId token = pick(mask_of(constraint, everything));
      if (token < 0) break;
      constraint.push(token);
    }
    const int first = made == 0 ? 0 : static_cast<int>(random_() % static_cast<uint32_t>(made + 1));
    if (first > 0) constraint.pop(first);
    static_cast<void>(constraint.allowed());
    if (made > first) constraint.pop(made - first);
    if (mask_of(constraint, everything) != before)
      fail(ErrorKind::internal, "a draft left its mark on the mask");
  }

  TokenId pick(const std::vector<uint32_t>& mask) {
    ids_.clear();
    for (size_t word = 0; word < mask.size(); ++word) {
      for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
        ids_.push_back(static_cast<TokenId>(word * 32 + static_cast<size_t>(__builtin_ctz(bits))));
      }
    }
    if (ids_.empty()) {
      ++dead_ends_;
      return -1;
    }
    const uint32_t way = random_() % 8;
    if (way < 2) {
      for (const TokenId id : closing_) {
        if (std::find(ids_.begin(), ids_.end(), id) != ids_.end()) return id;
      }
    }
    if (way >= 2 && way < 6) {  // short ones and marks, so that texts come to an end
      std::vector<TokenId> near;
      for (const TokenId id : ids_) {
        const std::string_view text = table_.text(id);
        if (text.size() == 1 &&
            (way < 4 || std::string_view("\"]},:0123456789").find(text) != std::string_view::npos))
          near.push_back(id);
      }
      if (!near.empty()) return near[random_() % near.size()];
    }
    return ids_[random_() % ids_.size()];
  }

  const Tokenizer& tokenizer_;
  const TokenTable& table_;
  std::mt19937 random_;
  std::vector<TokenId> closing_;
  std::vector<TokenId> ids_;
  int64_t dead_ends_ = 0;
};

class Tool {
 public:
  explicit Tool(const std::string& folder)
      : tokenizer_(Tokenizer::load(folder)),
        tags_(*tokenizer_),
        eos_{*tokenizer_->id_of("<|endoftext|>"), *tokenizer_->id_of("<|user|>"),
             *tokenizer_->id_of("<|observation|>")},
        table_(std::make_shared<const TokenTable>(tokenizer_, eos_, (tokenizer_->size() + 63) / 64 * 64)),
        cache_(table_),
        everything_(table_->vocab_size()) {
    for (TokenId id = 0; id < tokenizer_->size(); ++id) {
      if (table_->ordinary().holds(id)) everything_.set(id);
    }
    everything_.set(tags_.id(OutputTag::call_open));
    for (const TokenId id : eos_) everything_.set(id);
  }

  OrderedJson answer(const OrderedJson& request) {
    const std::string kind = request.at("kind");
    try {
      return kind == "tools" ? calls(request) : texts(request, kind);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) throw;
      return {{"error", error.what()}};
    }
  }

 private:
  OrderedJson texts(const OrderedJson& request, const std::string& kind) {
    GrammarSource source;
    source.kind = kind == "json_schema" ? GrammarSource::Kind::json_schema
                  : kind == "regex"     ? GrammarSource::Kind::regex
                                        : GrammarSource::Kind::ebnf;
    source.text = request.at("text");
    source.lenient = request.value("lenient", false);
    const auto grammar = cache_.get(source);
    Walker walker(*tokenizer_, *table_, tags_, request.value("seed", 1U));
    OrderedJson out = {{"texts", OrderedJson::array()}};
    for (int i = 0; i < request.value("walks", 4); ++i) {
      TextConstraint constraint(grammar, table_);
      const auto tokens = walker.walk(constraint, everything_, request.value("tokens_max", 400));
      out["texts"].push_back(tokens.empty() ? OrderedJson(nullptr)
                                            : OrderedJson(tokenizer_->decode(tokens, true)));
    }
    out["dead_ends"] = walker.dead_ends();
    return out;
  }

  OrderedJson calls(const OrderedJson& request) {
    const auto tools = parse_tools(request.at("tools"));
    using Calls = ToolCallPlan::Calls;
    const std::string named = request.value("named", "");
    auto plan = std::make_shared<ToolCallPlan>(make_tool_rules(tools, named, cache_),
                                               request.value("must", true) ? Calls::must : Calls::may,
                                               request.value("one_only", false), tags_, table_);
    Walker walker(*tokenizer_, *table_, tags_, request.value("seed", 1U));
    OrderedJson out = {{"answers", OrderedJson::array()}};
    for (int i = 0; i < request.value("walks", 4); ++i) {
      ToolCallConstraint constraint(plan);
      const auto tokens = walker.walk(constraint, everything_, request.value("tokens_max", 400));
      out["answers"].push_back(tokens.empty() ? OrderedJson(nullptr) : parsed(tokens, tools));
    }
    out["dead_ends"] = walker.dead_ends();
    return out;
  }

  OrderedJson parsed(std::vector<TokenId> tokens, const std::vector<ToolDefinition>& tools) {
    tokens.pop_back();
    OutputParserOptions options;
    options.starts_in_reasoning = false;
    options.tools = std::make_shared<const ToolSet>(tools);
    options.tool_choice.mode = ToolChoiceMode::required;
    OutputParser parser(std::move(options));
    StreamDetokenizer text(tokenizer_, true);
    std::vector<OutputDelta> deltas;
    for (const TokenId token : tokens) {
      const OutputTag tag = tags_.of(token);
      if (tag != OutputTag::none) {
        text = StreamDetokenizer(tokenizer_, true);
        parser.tag(tag, deltas);
      } else {
        parser.text(text.push(token), deltas);
      }
    }
    parser.finish(OutputEnd::complete, deltas);
    OrderedJson list = OrderedJson::array();
    for (const OutputToolCall& call : parser.result().tool_calls) {
      list.push_back({{"name", call.name}, {"arguments", call.arguments}});
    }
    const OutputCounters& counters = parser.counters();
    if (counters.unknown_tools + counters.stray_tags + counters.broken_calls > 0)
      list.push_back({{"name", "BROKEN"}, {"arguments", "{}"}});
    return list;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  OutputTags tags_;
  std::vector<TokenId> eos_;
  std::shared_ptr<const TokenTable> table_;
  GrammarCache cache_;
  TokenMask everything_;
};

int run(const std::string& folder) {
  Tool tool(folder);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << dump_json(tool.answer(parse_python_json(line, "request"))) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace glint

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: grammar_tool FOLDER_OF_A_TOKENIZER\n";
    return 2;
  }
  try {
    return glint::run(argv[1]);
  } catch (const std::exception& failure) {
    std::cerr << "grammar_tool: " << failure.what() << "\n";
    return 1;
  }
}
