#include "bench/server_bench.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "bench/send_floor.h"
#include "bench/stream_client.h"
#include "bench/timed_executor.h"
#include "bench/timed_server.h"
#include "bench/timing.h"
#include "engine/serving_engine.h"
#include "text/standin_tokenizer.h"

namespace glint::bench {

namespace {

using Ms = std::chrono::milliseconds;

constexpr int64_t kSmallVocabulary = 512;
constexpr size_t kChunkBytes = 230;  // of one data chunk with its frame

std::shared_ptr<const Tokenizer> standin(int64_t vocab_size) {
  const auto last = static_cast<int32_t>(vocab_size - 1);
  const std::array<int32_t, 3> eos{last - 2, last - 1, last};
  return Tokenizer::parse(standin_tokenizer_json(vocab_size, eos), "the bench's tokenizer");
}

TimedServerOptions timed(const ServingOptions& serving, int64_t step_us) {
  TimedServerOptions options;
  options.serving = serving;
  options.step_us = step_us;
  return options;
}

void wait_until(const std::function<bool()>& condition) {
  const Stopwatch watch;
  while (!condition()) {
    if (watch.seconds() > 120) fail(ErrorKind::internal, "the bench's server makes no progress");
    std::this_thread::sleep_for(Ms(20));
  }
}

void bench_streams(const ServerBenchOptions& options, const StreamClients& clients, double floor_s,
                   Report& report) {
  ServingOptions serving;
  serving.max_model_len = options.tokens + 64;
  serving.scheduler = {.max_num_seqs = options.streams, .max_num_batched_tokens = 8192};
  const TimedServer server(standin(kSmallVocabulary), kSmallVocabulary,
                           timed(serving, options.step_ms * 1000));
  clients.start(server.port());
  wait_until([&] { return server.stats().running == options.streams; });
  const EngineStats before = server.stats();
  const double cpu = process_cpu_s();
  const Stopwatch watch;
  wait_until([&] { return server.stats().running < options.streams; });
  const double seconds = watch.seconds();
  const EngineStats after = server.stats();
  const double cpu_used = process_cpu_s() - cpu;
  const StreamTotals totals = clients.wait();
  if (totals.done != options.streams) {
    fail(ErrorKind::internal, "only ", totals.done, " of ", options.streams, " streams came to their end");
  }
  const auto tokens = static_cast<double>(after.generated_tokens - before.generated_tokens);
  report.add({"server", cat("CPU per streamed token, ", options.streams, " streams (wanted: at most 6)"),
              seconds, cpu_used * 1e6 / tokens, floor_s * 1e6, "us", "a bare send() of the chunk"});
  const auto steps = static_cast<double>(after.steps - before.steps);
  report.add({"server", "engine's own time per step", seconds, (after.own_s - before.own_s) * 1e6 / steps, 0,
              "us", ""});
  const double device_rate =
      static_cast<double>(options.streams) * 1000 / static_cast<double>(options.step_ms);
  const double seen = static_cast<double>(options.streams) * static_cast<double>(options.tokens - 1) /
                      (totals.last_s - totals.first_s);
  report.add({"server", "tokens that clients get (wanted: at least 90 %)", totals.last_s - totals.first_s,
              seen, device_rate, "tokens/s", "the device's steps"});
}

/// Text of about so many tokens that looks like words; the exact number is what the tokenizer makes of it.
std::string long_text(const Tokenizer& tokenizer, int64_t tokens) {
  std::mt19937 random(1);
  std::string text;
  const auto is_word = [](std::string_view bytes) {
    return bytes.size() > 2 && std::all_of(bytes.begin(), bytes.end(), [](char c) {
             return c == ' ' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
           });
  };
  for (int64_t count = 0; count < tokens;) {
    const auto id = static_cast<TokenId>(random() % static_cast<uint32_t>(tokenizer.size()));
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (!is_word(bytes)) continue;
    text += bytes.front() == ' ' ? "" : " ";
    text += bytes;
    if (++count % 17 == 0) text += ".";
  }
  return text;
}

void bench_prefix_hit(const ServerBenchOptions& options, Report& report) {
  const auto tokenizer = standin(options.vocab_size);
  std::string text = long_text(*tokenizer, options.prefix_tokens);
  // Shortened to the number of tokens that was asked for.
  const auto all = static_cast<int64_t>(tokenizer->encode(text, false).size());
  text.resize(text.size() * static_cast<size_t>(options.prefix_tokens) /
              static_cast<size_t>(std::max(all, options.prefix_tokens)));
  const auto tokens = static_cast<int64_t>(tokenizer->encode(text, false).size());
  const double encode_s = time_of([&] { static_cast<void>(tokenizer->encode(text, false)); });
  ServingOptions serving;
  serving.max_model_len = tokens + 128;
  serving.scheduler = {.max_num_seqs = 2, .max_num_batched_tokens = 8192};
  const TimedServer server(tokenizer, options.vocab_size, timed(serving, 0));
  const std::string request = completion_request(dump_json(OrderedJson{
      {"prompt", text}, {"max_tokens", 2}, {"temperature", 0}, {"ignore_eos", true}, {"stream", true}}));
  const double cold = time_to_first_byte(server.port(), request);
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) times.push_back(time_to_first_byte(server.port(), request));
  const EngineStats stats = server.stats();
  if (stats.prefix_hits_tokens < static_cast<uint64_t>(9 * (tokens - 128))) {
    fail(ErrorKind::internal, "the prefix was not found in the cache: ", stats.prefix_hits_tokens, " tokens");
  }
  const double middle = median(times);
  report.note("prefix", cat(tokens, " tokens, ", text.size(), " bytes"));
  report.add({"prefix hit", "first token, not cached, device time 0", cold, cold * 1e3, 0, "ms", ""});
  report.add(
      {"prefix hit", "first token, all cached, median of 9 (wanted: 60)", middle, middle * 1e3, 0, "ms", ""});
  const double worst = *std::max_element(times.begin(), times.end());
  report.add({"prefix hit", "first token, all cached, slowest of 9", worst, worst * 1e3, 0, "ms", ""});
  report.add({"prefix hit", "of it tokenizing", encode_s, encode_s * 1e3, 0, "ms", ""});
}

/// The loop's time between two steps, executing and sampling excluded, with a device that takes a
/// millisecond.
void bench_own_time(int64_t sequences, const ServerBenchOptions& options, Report& report) {
  const auto control = std::make_shared<TimedExecutor::Control>();
  control->step_us = 1000;
  const int64_t tokens = options.quick ? 200 : 1000;
  ServingOptions serving;
  serving.max_model_len = tokens + 64;
  serving.scheduler = {.max_num_seqs = sequences, .max_num_batched_tokens = 8192};
  const int64_t pages = sequences * Scheduler::pages_for(serving.max_model_len);
  std::atomic<int64_t> open{sequences};
  ServingEngine engine(std::make_unique<TimedExecutor>(timed_config(kSmallVocabulary), pages, 8192, control),
                       standin(kSmallVocabulary), serving, [&](std::span<StepOutput> outputs) {
                         for (const StepOutput& output : outputs) open -= output.finish != FinishReason::none;
                       });
  for (int64_t i = 0; i < sequences; ++i) {
    EngineRequest request;
    request.prompt = {static_cast<TokenId>(i % 100), 1, 2};
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = tokens;
    engine.submit(std::move(request));
  }
  wait_until([&] { return engine.stats().running == sequences; });
  const EngineStats before = engine.stats();
  wait_until([&] { return open < sequences; });
  const EngineStats after = engine.stats();
  const double us = (after.own_s - before.own_s) * 1e6 / static_cast<double>(after.steps - before.steps);
  const double wanted = 20 + 0.3 * static_cast<double>(sequences);
  report.add({"engine", cat("own time per step, ", sequences, " sequences"), us * 1e-6, us, wanted, "us",
              "wanted at most"});
}

void bench_wake_up(const std::string& name, std::chrono::microseconds spin, const ServerBenchOptions& options,
                   Report& report) {
  const auto control = std::make_shared<TimedExecutor::Control>();
  ServingOptions serving;
  serving.max_model_len = 64;
  serving.scheduler = {.max_num_seqs = 1, .max_num_batched_tokens = 64};
  serving.idle_spin = spin;
  ServingEngine engine(std::make_unique<TimedExecutor>(timed_config(kSmallVocabulary), 4, 64, control),
                       standin(kSmallVocabulary), serving, [](std::span<StepOutput>) {});
  std::vector<double> us;
  for (int i = 0; i < (options.quick ? 200 : 1000); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EngineRequest request;
    request.prompt = {1};
    request.sampling.max_tokens = 1;
    request.sampling.seed = 1;
    const uint64_t steps = control->steps;
    const auto begin = std::chrono::steady_clock::now();
    engine.submit(std::move(request));
    while (control->steps == steps) std::this_thread::yield();
    const std::chrono::nanoseconds began(control->last_begin_ns);
    us.push_back(std::chrono::duration<double, std::micro>(began - begin.time_since_epoch()).count());
  }
  std::sort(us.begin(), us.end());
  report.add({"wake-up", name + ", median (wanted: 50)", 0, us[us.size() / 2], 0, "us", ""});
  report.add({"wake-up", name + ", 99 %", 0, us[us.size() * 99 / 100], 0, "us", ""});
}

std::string load_average() {
  std::ifstream file("/proc/loadavg");
  std::string load;
  file >> load;
  return load;
}

}  // namespace

void bench_server(const ServerBenchOptions& options, Report& report) {
  set_log_level(LogLevel::warning);
  ServerBenchOptions actual = options;
  if (options.quick) actual.tokens = std::min<int64_t>(actual.tokens, 60);
  const std::string request = completion_request(dump_json(OrderedJson{{"prompt", "one two three"},
                                                                       {"max_tokens", actual.tokens},
                                                                       {"temperature", 0},
                                                                       {"ignore_eos", true},
                                                                       {"stream", true}}));
  // Before any thread is there: they fork.
  const StreamClients clients(actual.streams, request);
  const StreamClients floor_clients(actual.streams, request);
  report.note("load of the machine at the start", load_average());
  const double floor_s =
      send_floor_s(floor_clients, actual.streams, kChunkBytes, options.quick ? 50 : 200, actual.step_ms);
  for (const int64_t sequences : {1, 16, 64, 256}) bench_own_time(sequences, actual, report);
  bench_streams(actual, clients, floor_s, report);
  bench_prefix_hit(actual, report);
  bench_wake_up("idle engine, as by default", std::chrono::microseconds(50), actual, report);
  bench_wake_up("idle engine, --sleep-on-idle", std::chrono::microseconds(0), actual, report);
  bench_wake_up("idle engine, --busy-poll", std::chrono::microseconds(-1), actual, report);
  report.note("load of the machine at the end", load_average());
}

}  // namespace glint::bench
