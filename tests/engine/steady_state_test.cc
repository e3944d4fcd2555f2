// In a steady state nothing in the process takes memory: not the engine's loop, not the threads of the
// operations. This program replaces malloc to see it, so it is one of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "engine_support.h"

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

std::atomic<int64_t> allocations{0};
// The test's own thread waits and looks at clocks; what it takes is not the engine's.
thread_local bool counted = true;

void count() {
  if (counted) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(size_t count_of, size_t bytes) {
  count();
  return __libc_calloc(count_of, bytes);
}
void* realloc(void* old, size_t bytes) {
  count();
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  count();
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
}

namespace glint::testing {
namespace {

/// Counts tokens without taking memory.
struct TokenCounter {
  std::atomic<int64_t> tokens{0};
  std::atomic<int64_t> ended{0};
  OutputSink sink() {
    return [this](std::span<StepOutput> outputs) {
      for (const StepOutput& output : outputs) {
        tokens += static_cast<int64_t>(output.tokens.size());
        ended += output.finish != FinishReason::none;
      }
    };
  }
  void wait_for(int64_t count) const {
    while (tokens < count && ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

EngineRequest long_request(TokenId first, float temperature) {
  EngineRequest request;
  for (TokenId i = 0; i < 100; ++i) request.prompt.push_back(first + i % 7);
  request.sampling.temperature = temperature;
  request.sampling.top_p = 0.9F;
  request.sampling.top_k = temperature == 1.0F ? 0 : 50;
  request.sampling.seed = 5;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = 400;
  return request;
}

/// Memory taken while `tokens` tokens come out of `sequences` sequences in the midst of their answers.
int64_t allocations_in_steady_state(const EngineOptions& options, int sequences) {
  counted = false;
  TokenCounter counter;
  const auto engine = make_engine(Checkpoint::open(served_folder()), Tokenizer::load(served_folder()),
                                  options, counter.sink());
  for (int i = 0; i < sequences; ++i) {
    engine->submit(long_request(static_cast<TokenId>(10 + 20 * i), i % 2 == 0 ? 0.0F : 0.5F + 0.5F * i));
  }
  counter.wait_for(sequences * 40);
  const int64_t before = allocations;
  const int64_t from = counter.tokens;
  counter.wait_for(from + sequences * 200);  // crosses pages: takes, publishes and hashes some
  const int64_t taken = allocations - before;
  EXPECT_EQ(counter.ended, 0) << "the window reached beyond the steady state";
  EXPECT_GE(counter.tokens, from + sequences * 200);
  counted = true;
  return taken;
}

TEST(SteadyState, CountsWhatTheProcessTakes) {
  const int64_t before = allocations;
  std::thread([] { delete new std::vector<int>(100); }).join();
  EXPECT_GE(allocations - before, 2) << "the counting itself does not work";
}

TEST(SteadyState, DecodingTakesNoMemory) {
  EXPECT_EQ(allocations_in_steady_state(small_options(), 4), 0);
}

TEST(SteadyState, SpeculationTakesNoMemory) {
  EngineOptions options = small_options();
  options.num_speculative_tokens = 3;
  EXPECT_EQ(allocations_in_steady_state(options, 4), 0);
}

}  // namespace
}  // namespace glint::testing
