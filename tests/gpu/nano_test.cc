// The trained model in the box, served on the GPU: greedy texts beside the CPU's in the same dtype, and the
// engine's contract that an answer does not depend on company, chunks, cache or speculation.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "engine/device_choice.h"
#include "nano_support.h"

namespace glint::gpu {
namespace {

struct Served {
  DeviceKind device = DeviceKind::gpu;
  int64_t drafts = 0;
  bool together = true;
  bool prefix_caching = true;
  int64_t batched_tokens = 2048;
  CudaSettings cuda{};
};

int64_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  cudaMemGetInfo(&free, &total);
  return static_cast<int64_t>(free);
}

std::vector<Answer> serve(const Served& how, const std::vector<std::string>& texts) {
  const auto checkpoint = Checkpoint::open(nano_folder());
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::load(nano_folder());
  EngineOptions options;
  options.max_model_len = 4096;
  options.max_num_batched_tokens = how.batched_tokens;
  options.num_speculative_tokens = how.drafts;
  options.prefix_caching = how.prefix_caching;
  options.kv_cache_dtype = KvCacheDType::bfloat16;
  options.kv_cache_memory_bytes = int64_t{512} << 20;
  options.cuda = how.cuda;
  PlanRequest request = cpu_request(stored_format(*checkpoint), options);
  if (how.device == DeviceKind::gpu) request.device = open_device({.kind = DeviceKind::gpu});
  Collector collector;
  const auto engine =
      make_engine(checkpoint, tokenizer, plan_memory(checkpoint->config(), request), collector.sink());
  const int64_t free_when_ready = free_bytes();
  std::vector<uint64_t> ids;
  std::vector<Answer> answers;
  for (const std::string& text : texts) {
    EngineRequest one;
    one.prompt = tokenizer->encode(text, false);
    one.sampling.temperature = 0;
    one.sampling.max_tokens = kTokensMax;
    one.sampling.logprobs = 2;
    ids.push_back(engine->submit(std::move(one)));
    if (!how.together) answers.push_back(collector.wait(ids.back()));
  }
  for (size_t i = answers.size(); i < ids.size(); ++i) answers.push_back(collector.wait(ids[i]));
  if (how.device == DeviceKind::gpu) {
    const int64_t taken = free_when_ready - free_bytes();
    expect(taken <= 0, "serving took ", taken, " bytes of the device's memory after the start");
  }
  const DraftCounts drafts = engine->stats().drafts;
  if (how.drafts > 0) {
    note(cat("; ",
             1 + static_cast<double>(drafts.accepted_tokens) /
                     static_cast<double>(std::max<uint64_t>(1, drafts.drafts)),
             " tokens a step at ", how.drafts, " drafts"));
  }
  return answers;
}

void compare_with_cpu(const CudaSettings& settings) {
  const std::vector<std::string> texts = prompts();
  static std::vector<Answer> cpu;
  if (cpu.empty()) cpu = serve({.device = DeviceKind::cpu}, texts);
  const std::vector<Answer> gpu = serve({.cuda = settings}, texts);
  int same = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (cpu[i].tokens == gpu[i].tokens) {
      ++same;
      continue;
    }
    size_t at = 0;
    while (at < cpu[i].tokens.size() && at < gpu[i].tokens.size() && cpu[i].tokens[at] == gpu[i].tokens[at])
      ++at;
    const double margin = at < cpu[i].margins.size() ? cpu[i].margins[at] : -1;
    const double gpu_margin = at < gpu[i].margins.size() ? gpu[i].margins[at] : -1;
    std::printf("  prompt %zu differs at token %zu, where the likeliest leads by %.4f (CPU) and %.4f (GPU)\n",
                i, at, margin, gpu_margin);
  }
  note(cat("; ", same, " of 200 texts are the CPU's"));
  expect(same >= 196, "only ", same, " of 200 texts are the CPU's");
}

void keeps_the_contract() {
  std::vector<std::string> texts = prompts();
  texts.resize(60);
  const CudaSettings invariant{.batch_invariant = true};
  const std::vector<Answer> alone =
      serve({.together = false, .prefix_caching = false, .cuda = invariant}, texts);
  const auto same = [&](const Served& how, const char* what) {
    const std::vector<Answer> answers = serve(how, texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      expect(answers[i].tokens == alone[i].tokens && answers[i].margins == alone[i].margins, what,
             ": answer ", i, " differs from the one alone");
    }
  };
  same({.cuda = invariant}, "together");
  same({.drafts = 5, .cuda = invariant}, "together with five drafts");
  same({.drafts = 2, .together = false, .cuda = invariant}, "alone with two drafts");
  same({.batched_tokens = 64, .cuda = invariant}, "in chunks of 64");
  same({.cuda = {.batch_invariant = true, .graphs = false}}, "without graphs");
}

/// In the default mode: how often company changed an answer.
void default_mode() {
  std::vector<std::string> texts = prompts();
  texts.resize(100);
  const std::vector<Answer> alone = serve({.together = false}, texts);
  const std::vector<Answer> together = serve({.drafts = 5}, texts);
  int other = 0;
  for (size_t i = 0; i < texts.size(); ++i) other += alone[i].tokens != together[i].tokens;
  note(cat("; ", other, " of 100 answers changed with company and drafts"));
  expect(other <= 10, other, " of 100 answers changed");
}

const Register kAll[] = {
    {"nano greedy, default", [] { compare_with_cpu({}); }},
    {"nano greedy, bfloat16 activations", [] { compare_with_cpu({.fp8_activations = false}); }},
    {"nano contract, batch-invariant", keeps_the_contract},
    {"nano company, default", default_mode},
};

}  // namespace
}  // namespace glint::gpu
