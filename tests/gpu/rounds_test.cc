// Rounds on the GPU beside the same answers without them: host sampling, host drafting, one step after the
// other.
#include "engine/device_choice.h"
#include "nano_support.h"
#include "support/host_rounds.h"

namespace glint::gpu {
namespace {

enum class Way { rounds, host_rounds, no_rounds };

struct Served {
  Way way = Way::rounds;
  int64_t drafts = 0;
  int64_t sequences = 16;
  CudaSettings cuda{.batch_invariant = true};
};

struct Outcome {
  std::vector<Answer> answers;
  double acceptance = 0;  // tokens a step and sequence
  double seconds = 0;
  int64_t rounds = 0;  // of the host
  RoundStats stats;
};

EngineRequest request_of(const Tokenizer& tokenizer, const std::string& text, size_t i) {
  EngineRequest one;
  one.prompt = tokenizer.encode(text, false);
  one.sampling.max_tokens = 20 + static_cast<int64_t>(i * 37 % 150);
  one.sampling.temperature = i % 3 == 0 ? 0.0F : 0.7F;
  one.sampling.seed = i;
  one.sampling.top_k = i % 4 == 1 ? 30 : 0;
  one.sampling.top_p = i % 5 == 2 ? 0.9F : 1.0F;
  one.sampling.min_p = i % 7 == 3 ? 0.05F : 0.0F;
  one.sampling.ignore_eos = i % 4 == 0;
  return one;
}

Outcome serve(const Served& how) {
  const auto checkpoint = Checkpoint::open(nano_folder());
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::load(nano_folder());
  EngineOptions options;
  options.max_model_len = 4096;
  options.max_num_seqs = how.sequences;
  options.num_speculative_tokens = how.drafts;
  options.kv_cache_memory_bytes = int64_t{512} << 20;
  options.cuda = how.cuda;
  PlanRequest request = cpu_request(stored_format(*checkpoint), options);
  request.device = open_device({.kind = DeviceKind::gpu});
  testing::RoundCounts counts;
  const ExecutorWrap wrap = [&](std::unique_ptr<Executor> executor) -> std::unique_ptr<Executor> {
    if (how.way == Way::rounds) return executor;
    if (how.way == Way::no_rounds) return std::make_unique<testing::PlainExecutor>(std::move(executor));
    return std::make_unique<testing::HostRoundExecutor>(std::move(executor), options.max_model_len, counts);
  };
  Collector collector;
  auto engine =
      make_engine(checkpoint, tokenizer, plan_memory(checkpoint->config(), request), collector.sink(), wrap);
  std::vector<std::string> texts = prompts();
  texts.resize(80);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < texts.size(); ++i)
    ids.push_back(engine->submit(request_of(*tokenizer, texts[i], i)));
  Outcome outcome;
  for (const uint64_t id : ids) outcome.answers.push_back(collector.wait(id));
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  outcome.stats = engine->stats().rounds;
  const DraftCounts drafts = engine->stats().drafts;
  outcome.acceptance = 1 + static_cast<double>(drafts.accepted_tokens) /
                               static_cast<double>(std::max<uint64_t>(1, drafts.drafts));
  engine.reset();
  outcome.rounds = counts.started;
  return outcome;
}

void expect_same(const Outcome& found, const Outcome& wanted, const char* what) {
  for (size_t i = 0; i < wanted.answers.size(); ++i) {
    expect(found.answers[i].tokens == wanted.answers[i].tokens, what, ": answer ", i, " is another one");
  }
}

void equals_host_sampling() {
  for (const int64_t drafts : {0, 1, 5}) {
    const Outcome without = serve({.way = Way::no_rounds, .drafts = drafts});
    const Outcome with = serve({.drafts = drafts});
    const Outcome host = serve({.way = Way::host_rounds, .drafts = drafts});
    expect(host.rounds > 50, "only ", host.rounds, " rounds ran");
    expect_same(with, without, "rounds");
    expect_same(host, without, "rounds of the host");
    expect(std::abs(with.acceptance - without.acceptance) < 0.02 * without.acceptance, "acceptance ",
           with.acceptance, " with rounds, ", without.acceptance, " without");
    expect(with.stats.ahead > 30, "only ", with.stats.ahead, " rounds ran ahead");
    note(cat("; ", drafts, " drafts: ", with.seconds, " s with rounds, ", without.seconds, " s without; ",
             with.stats.ahead, " of ", with.stats.rounds, " rounds ran ahead, ",
             1e6 * with.stats.idle_s / static_cast<double>(with.stats.ahead), " us idle before one"));
  }
}

void equals_eager_launches() {
  const Outcome graphs = serve({.drafts = 3, .sequences = 5});
  expect_same(serve({.drafts = 3, .sequences = 5, .cuda = {.batch_invariant = true, .graphs = false}}),
              graphs, "kernel by kernel");
  expect_same(serve({.drafts = kSpeculativeTokensAuto, .sequences = 5}), graphs,
              "with a number of drafts that varies");
  expect_same(serve({.drafts = 3, .sequences = 1}), graphs, "one at a time");
}

const Register kAll[] = {
    {"rounds, host sampling", equals_host_sampling},
    {"rounds, graphs and kernel by kernel", equals_eager_launches},
};

}  // namespace
}  // namespace glint::gpu
