// What constraints cost beside the sampler's own work on a row of logits; see
// bench/results/grammar-masks.txt. grammar_bench FOLDER: a folder with a tokenizer.json
// (tools/make_large_tokenizer.py writes one of the real size).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <random>

#include "engine/sequence_sampler.h"
#include "text/grammar/grammar_cache.h"
#include "text/grammar/text_constraint.h"
#include "text/grammar/tool_call_constraint.h"

namespace glint {
namespace {

/// Processor time of the thread: other work of the machine does not count.
struct Clock {
  using time_point = std::chrono::nanoseconds;
  static time_point now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
};

/// A decode step of the full model on eight H200s takes 12 to 30 ms.
constexpr double kStepUs = 20'000;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

struct Spread {
  std::vector<double> values;
  void print(const char* what) {
    std::sort(values.begin(), values.end());
    double sum = 0;
    for (const double value : values) sum += value;
    std::printf("%-62s mean %8.1f  median %8.1f  p99 %8.1f  max %8.1f us (%zu)\n", what,
                sum / static_cast<double>(values.size()), values[values.size() / 2],
                values[values.size() * 99 / 100], values.back(), values.size());
  }
};

constexpr const char* kSchema =
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
  "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}}, "score": {"type": "number"},
  "address": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
  "required": ["city"], "additionalProperties": false}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
  "required": ["name", "age", "tags", "address"], "additionalProperties": false})";

class Bench {
 public:
  explicit Bench(const std::string& folder)
      : tokenizer_(Tokenizer::load(folder)), tags_(*tokenizer_), vocab_((tokenizer_->size() + 63) / 64 * 64) {
    for (const char* name : {"<|endoftext|>", "<|user|>", "<|observation|>"})
      eos_.push_back(*tokenizer_->id_of(name));
    const auto begin = Clock::now();
    table_ = std::make_shared<const TokenTable>(tokenizer_, eos_, vocab_);
    std::printf("vocabulary of %d ids\ntable of the tokens: %.1f ms\n", static_cast<int>(vocab_),
                us_since(begin) / 1000);
    const auto middle = Clock::now();
    cache_ = std::make_unique<GrammarCache>(table_);
    std::printf("the library's own table: %.1f ms\n", us_since(middle) / 1000);
    std::vector<bool> sampleable(static_cast<size_t>(vocab_), true);
    for (TokenId id = 0; id < vocab_; ++id) sampleable[static_cast<size_t>(id)] = tokenizer_->exists(id);
    sampler_ =
        std::make_unique<SequenceSampler>(SequenceSamplerOptions{.sampleable = sampleable, .eos = eos_});
    rows_.resize(16, std::vector<float>(static_cast<size_t>(vocab_)));
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 3);
    for (auto& row : rows_) {
      for (float& value : row) value = normal(random);
    }
  }

  void run() {
    compile("schema of ten parts", {GrammarSource::Kind::json_schema, kSchema});
    compile("any JSON object",
            {GrammarSource::Kind::json_schema, R"({"type": "object", "additionalProperties": true})"});
    compile("regular expression of a date", {GrammarSource::Kind::regex, "\\d{4}-\\d{2}-\\d{2}"});
    for (const float temperature : {0.0F, 1.0F}) {
      std::printf("temperature %.0f\n", static_cast<double>(temperature));
      sample("  no constraint", temperature, nullptr);
      sample("  tools under auto, free text", temperature, calls(ToolCallPlan::Calls::may));
      sample("  inside calls", temperature, calls(ToolCallPlan::Calls::must));
      sample("  schema", temperature, [this] {
        return std::make_shared<TextConstraint>(cache_->get({GrammarSource::Kind::json_schema, kSchema}),
                                                table_);
      });
    }
    for (const int drafts : {0, 3, 5, 8}) {
      std::printf("one sequence's tokens of a step with %d drafts, all confirmed\n", drafts);
      const double free = steps("  no constraint", drafts, nullptr);
      for (const auto& [what, make] :
           {std::pair<const char*, Make>{"  tools under auto, free text", calls(ToolCallPlan::Calls::may)},
            {"  inside calls", calls(ToolCallPlan::Calls::must)}}) {
        const double more = std::max(0.0, steps(what, drafts, make) - free);
        std::printf(
            "    more than without: %.1f us a sequence, %.3f %% of a step of %.0f ms; 64 sequences on 16 "
            "threads %.2f %%\n",
            more, more / kStepUs * 100, kStepUs / 1000, more * 64 / 16 / kStepUs * 100);
      }
    }
    masks();
  }

 private:
  using Make = std::function<std::shared_ptr<TokenConstraint>()>;

  void compile(const char* what, const GrammarSource& source) {
    const auto begin = Clock::now();
    const auto compiled = cache_->get(source);
    std::printf("compiling: %-40s %.1f ms, %.1f MB\n", what, us_since(begin) / 1000,
                static_cast<double>(compiled->memory_bytes()) / 1e6);
  }

  Make calls(ToolCallPlan::Calls kind) {
    const OrderedJson tools = OrderedJson::array(
        {{{"type", "function"},
          {"function", {{"name", "record"}, {"parameters", OrderedJson::parse(kSchema)}}}}});
    auto plan = std::make_shared<const ToolCallPlan>(make_tool_rules(parse_tools(tools), "", *cache_), kind,
                                                     false, tags_, table_);
    return [plan] { return std::make_shared<ToolCallConstraint>(plan); };
  }

  /// A sequence of its own for each run, 60 tokens each.
  void sample(const char* what, float temperature, const Make& make) {
    Spread times;
    std::vector<float> row;
    for (int run = 0; run < 8; ++run) {
      Sequence sequence;
      sequence.sampling.temperature = temperature;
      sequence.sampling.top_p = 1;
      sequence.sampling.ignore_eos = true;
      if (make) sequence.sampling.constraint = make();
      sequence.rules = TokenRules(sequence.sampling, std::vector<TokenId>{1}, eos_, vocab_, 100);
      for (int64_t position = 0; position < 60; ++position) {
        row = rows_[static_cast<size_t>(position) % rows_.size()];
        const auto begin = Clock::now();
        const TokenId token = sampler_->sample(sequence, position, row, nullptr);
        if (token < 0) break;
        sequence.rules.push(token);
        times.values.push_back(us_since(begin));
      }
    }
    times.print(what);
  }

  /// Drafting and verifying, as the engine does it: drafts under their masks, taken back, then taken. Mean of
  /// a step, us.
  double steps(const char* what, int drafts, const Make& make) {
    Spread times;
    std::vector<std::vector<float>> rows(static_cast<size_t>(2 * drafts + 1));
    for (int run = 0; run < 8; ++run) {
      Sequence sequence;
      sequence.sampling.temperature = 1;
      sequence.sampling.ignore_eos = true;
      sequence.seed = static_cast<uint64_t>(run);
      if (make) sequence.sampling.constraint = make();
      sequence.rules = TokenRules(sequence.sampling, std::vector<TokenId>{1}, eos_, vocab_, 200);
      for (int64_t position = 0; position + drafts < 100;) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const auto offset =
              static_cast<int64_t>(i < static_cast<size_t>(drafts) ? i : i - static_cast<size_t>(drafts));
          rows[i] = rows_[static_cast<size_t>(position + offset) % rows_.size()];
        }
        std::vector<TokenId> drafted;
        const auto begin = Clock::now();
        for (int i = 0; i < drafts; ++i) {
          drafted.push_back(sampler_->sample(sequence, position + i, rows[static_cast<size_t>(i)], nullptr));
          sequence.rules.push(drafted.back());
        }
        sequence.rules.pop(drafted);
        for (int i = 0; i <= drafts; ++i) {
          sequence.rules.push(
              sampler_->sample(sequence, position + i, rows[static_cast<size_t>(drafts + i)], nullptr));
        }
        times.values.push_back(us_since(begin));
        position += 1 + drafts;
      }
    }
    double sum = 0;
    for (const double value : times.values) sum += value;
    const double mean = sum / static_cast<double>(times.values.size());
    times.print(what);
    return mean;
  }

  /// Making masks alone, along random texts.
  void masks() {
    Spread fill;
    Spread push;
    std::mt19937 random(3);
    const auto grammar = cache_->get({GrammarSource::Kind::json_schema, kSchema});
    for (int run = 0; run < 40; ++run) {
      TextConstraint constraint(grammar, table_);
      for (int step = 0; step < 100; ++step) {
        auto begin = Clock::now();
        const auto mask = constraint.allowed();
        fill.values.push_back(us_since(begin));
        std::vector<TokenId> ids;
        for (size_t word = 0; word < mask.size(); ++word) {
          for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
            ids.push_back(static_cast<TokenId>(word * 32 + static_cast<size_t>(__builtin_ctz(bits))));
        }
        const TokenId token = ids[random() % ids.size()];
        begin = Clock::now();
        constraint.push(token);
        push.values.push_back(us_since(begin));
      }
    }
    fill.print("schema: making a mask");
    push.print("schema: following a token");
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  OutputTags tags_;
  TokenId vocab_;
  std::vector<TokenId> eos_;
  std::shared_ptr<const TokenTable> table_;
  std::unique_ptr<GrammarCache> cache_;
  std::unique_ptr<SequenceSampler> sampler_;
  std::vector<std::vector<float>> rows_;
};

}  // namespace
}  // namespace glint

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: grammar_bench FOLDER_OF_A_TOKENIZER\n", stderr);
    return 2;
  }
  glint::Bench(argv[1]).run();
  return 0;
}
