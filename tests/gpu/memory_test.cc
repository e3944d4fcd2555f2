// The memory plan beside what a GPU really gives: a server takes all of the device, as planned, and comes up.
#include <cuda_runtime_api.h>

#include "base/file.h"
#include "checkpoint/dummy_checkpoint.h"
#include "engine/captured_graph.h"
#include "engine/device_choice.h"
#include "nano_support.h"
#include "support/temp_folder.h"

namespace glint::gpu {
namespace {

/// GLM-5.3 with one dense and four MoE layers, 41 GiB in FP8.
void write_five_layers(const std::filesystem::path& folder) {
  Json config = parse_json(read_file(data_folder() / "glm-5.3-config.json"), "glm-5.3-config.json");
  config["num_hidden_layers"] = 5;
  config["first_k_dense_replace"] = 1;
  config["indexer_types"] = {"full", "full", "shared", "shared", "shared"};
  config["mlp_layer_types"] = {"dense", "sparse", "sparse", "sparse", "sparse"};
  std::ofstream(folder / "config.json") << config.dump();
}

void takes_the_whole_device(int64_t drafts) {
  const TempFolder folder;
  write_five_layers(folder.path());
  const auto checkpoint = open_dummy_checkpoint(folder.path(), CheckpointFormat::fp8);
  EngineOptions options;
  options.max_model_len = 131072;
  options.max_num_seqs = 32;
  options.num_speculative_tokens = drafts;
  PlanRequest request = cpu_request(CheckpointFormat::fp8, options);
  request.device = open_device({.kind = DeviceKind::gpu});
  const MemoryPlan plan = plan_memory(checkpoint->config(), request);
  Collector collector;
  const auto engine = make_engine(checkpoint, Tokenizer::load(nano_folder()), plan, collector.sink());
  const int64_t left = free_device_bytes();
  // A long prompt and full batches, by way of the host and not.
  std::vector<uint64_t> ids;
  for (int i = 0; i < 40; ++i) {
    EngineRequest one;
    for (int token = 0; token < (i == 0 ? 9000 : 50); ++token)
      one.prompt.push_back(5 + (token * 7 + i) % 200);
    one.sampling.max_tokens = 20;
    one.sampling.ignore_eos = true;
    one.sampling.top_p = 0.9F;
    one.sampling.top_k = i % 3 == 0 ? 40 : 0;
    if (i >= 36) one.sampling.logprobs = 2;
    ids.push_back(engine->submit(std::move(one)));
  }
  for (const uint64_t id : ids) expect(collector.wait(id).tokens.size() == 20, "not 20 tokens");
  expect(free_device_bytes() >= left, "serving took ", left - free_device_bytes(), " bytes after the start");
  note(cat("; ", drafts, " drafts: cache for ", plan.tokens(), " tokens, ", left >> 20,
           " MiB left of the device"));
}

const Register kAll[] = {{"memory, the whole device", [] {
                            for (const int64_t drafts : {0, 3}) takes_the_whole_device(drafts);
                          }}};

}  // namespace
}  // namespace glint::gpu
