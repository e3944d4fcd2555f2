#include "nano_serving.h"

#include <cuda_runtime_api.h>

#include "engine/device_choice.h"
#include "engine/engine_factory.h"

namespace glint::gpu {

namespace {

int64_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  cudaMemGetInfo(&free, &total);
  return static_cast<int64_t>(free);
}

EngineOptions options_of(const NanoServing& how) {
  EngineOptions options;
  options.max_model_len = how.max_model_len;
  options.max_num_batched_tokens = how.batched_tokens;
  options.num_speculative_tokens = how.drafts;
  options.prefix_caching = how.prefix_caching;
  options.kv_cache_dtype = how.cache;
  if (how.cached_tokens_max > 0) {
    options.max_total_tokens = how.cached_tokens_max;
  } else {
    options.kv_cache_memory_bytes = int64_t{512} << 20;
  }
  if (!how.disk.empty()) {
    options.kv_disk_dir = how.disk;
    options.kv_disk_bytes = int64_t{4} << 30;
  }
  options.cuda = how.cuda;
  return options;
}

}  // namespace

NanoEngine::NanoEngine(const NanoServing& how) : how_(how), tokenizer_(Tokenizer::load(nano_folder())) {
  const auto checkpoint = Checkpoint::open(nano_folder());
  PlanRequest request = cpu_request(stored_format(*checkpoint), options_of(how));
  if (how.device == DeviceKind::gpu) request.device = open_device({.kind = DeviceKind::gpu});
  engine_ =
      make_engine(checkpoint, tokenizer_, plan_memory(checkpoint->config(), request), collector_.sink());
  free_when_ready_ = free_bytes();
}

std::vector<Answer> NanoEngine::answers(const std::vector<std::string>& texts) {
  std::vector<uint64_t> ids;
  std::vector<Answer> answers;
  for (const std::string& text : texts) {
    EngineRequest one;
    one.prompt = tokenizer_->encode(text, false);
    one.sampling.temperature = 0;
    one.sampling.max_tokens = kTokensMax;
    if (how_.logprobs > 0) one.sampling.logprobs = how_.logprobs;
    ids.push_back(engine_->submit(std::move(one)));
    if (!how_.together) answers.push_back(collector_.wait(ids.back()));
  }
  for (size_t i = answers.size(); i < ids.size(); ++i) answers.push_back(collector_.wait(ids[i]));
  if (how_.device == DeviceKind::gpu) {
    const int64_t taken = free_when_ready_ - free_bytes();
    expect(taken <= 0, "serving took ", taken, " bytes of the device's memory after the start");
  }
  return answers;
}

std::vector<Answer> serve_nano(const NanoServing& how, const std::vector<std::string>& texts) {
  NanoEngine nano(how);
  std::vector<Answer> answers = nano.answers(texts);
  const DraftCounts drafts = nano.engine().stats().drafts;
  if (how.drafts > 0) {
    note(cat("; ",
             1 + static_cast<double>(drafts.accepted_tokens) /
                     static_cast<double>(std::max<uint64_t>(1, drafts.drafts)),
             " tokens a step at ", how.drafts, " drafts"));
  }
  return answers;
}

}  // namespace glint::gpu
