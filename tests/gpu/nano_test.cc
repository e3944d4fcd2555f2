// The trained model in the box, served on the GPU: greedy texts beside the CPU's in the same dtype, and the
// engine's contract that an answer does not depend on company, chunks, cache or speculation.
#include <cstdio>

#include "nano_serving.h"

namespace glint::gpu {
namespace {

void compare_with_cpu(const CudaSettings& settings) {
  const std::vector<std::string> texts = prompts();
  static std::vector<Answer> cpu;
  if (cpu.empty()) cpu = serve_nano({.device = DeviceKind::cpu}, texts);
  const std::vector<Answer> gpu = serve_nano({.cuda = settings}, texts);
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
      serve_nano({.together = false, .prefix_caching = false, .cuda = invariant}, texts);
  const auto same = [&](const NanoServing& how, const char* what) {
    const std::vector<Answer> answers = serve_nano(how, texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      expect(answers[i] == alone[i], what, ": answer ", i, " differs from the one alone");
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
  const std::vector<Answer> alone = serve_nano({.together = false}, texts);
  const std::vector<Answer> together = serve_nano({.drafts = 5}, texts);
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
