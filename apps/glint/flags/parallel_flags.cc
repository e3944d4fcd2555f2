#include "base/error.h"
#include "engine/device_memory.h"
#include "flags/groups.h"
#include "parallel/pipeline.h"

namespace glint {

namespace {

Choice only_one(const char* reason) {
  return {{"1"}, {{"", cat(reason, ": 1 is possible")}}};
}

}  // namespace

void add_parallel_flags(FlagTable& table, ServeFlags& to) {
  constexpr WholeNumber kSize{1, 65536};
  table.group("Parallelism", {"ParallelConfig"});
  table.add(value_flag("tensor-parallel-size", to.memory.tensor_parallel_size, kSize)
                .metavar("N")
                .short_name("tp")
                .alias("tp-size")
                .alias("tp")
                .default_text("1")
                .help("Devices that share each layer"));
  table.add(value_flag("pipeline-parallel-size", to.memory.pipeline_parallel_size, kSize)
                .metavar("N")
                .short_name("pp")
                .alias("pp-size")
                .alias("pp")
                .default_text("1")
                .help("Stages that the layers are cut into"));
  table.add(value_flag("pp-layer-partition", to.memory.partition,
                       CheckedText{[](std::string_view text) { (void)parse_partition(text); }})
                .metavar("N,N,...")
                .env("VLLM_PP_LAYER_PARTITION")
                .env("SGLANG_PP_LAYER_PARTITION")
                .default_text("balanced by weights and cache")
                .help("Layers of each stage: 10,12,12"));
  table.add(toggle_flag("pp-strict-index-boundaries", to.memory.strict_boundaries)
                .help("Refuse a stage that begins on a layer without an indexer"));
  table.add(toggle_flag("enable-expert-parallel", to.memory.expert_parallel)
                .short_name("ep")
                .help("Spread experts whole over the devices of a stage instead of slicing each"));
  table.add(value_flag("expert-parallel-size", to.memory.expert_parallel_size, kSize)
                .metavar("N")
                .alias("ep-size")
                .alias("ep")
                .help("SGLang's way to say the same: tensor-parallel-size times data-parallel-size, or 1"));
  table.add(value_flag("data-parallel-size", to.memory.data_parallel_size, kSize)
                .metavar("N")
                .short_name("dp")
                .alias("dp-size")
                .alias("dp")
                .help("Replicas that share the experts under --enable-expert-parallel"));
  table.add(value_flag("nnodes", to.one_machine, only_one("one machine serves a model"))
                .metavar("N")
                .short_name("n")
                .help("Machines that serve the model together: 1"));
  table.add(value_flag("node-rank", to.first_node,
                       Choice{{"0"}, {{"", "one machine serves a model: 0 is possible"}}})
                .metavar("N")
                .short_name("r")
                .help("This machine among them: 0"));
  table.add(value_flag("prefill-context-parallel-size", to.one_prefill_rank,
                       only_one("a prompt is not divided over devices"))
                .metavar("N")
                .short_name("pcp")
                .help("Devices that a prompt is divided over: 1"));
  table.add(value_flag("decode-context-parallel-size", to.memory.decode_context_parallel_size, kSize)
                .metavar("N")
                .short_name("dcp")
                .alias("dcp-size")
                .alias("dcp")
                .help("Devices that the cache's latent rows are striped over"));
  table.add(
      toggle_flag("dcp-stripe-index-keys", to.memory.stripe_index_keys).help("Stripe the index keys too"));
  table.add(value_flag("device-memory", to.device_memory,
                       CheckedText{[](std::string_view text) { (void)parse_device_memory(text); }})
                .metavar("GPUS")
                .only(std::string(kPlan))
                .help("The GPUs to plan for: 8x141GB, 8xH200, 7xRTX6000; without it this machine's CPU"));
}

}  // namespace glint
