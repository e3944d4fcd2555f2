#include "engine/flags.h"
#include "flags/groups.h"

namespace glint {

namespace {

// Far above what any device holds; the plan is computed for every number below.
constexpr int64_t kSequencesMax = int64_t{1} << 20;
constexpr int64_t kRowsMax = int64_t{1} << 24;

/// Names are checked without knowing --dtype, on which float32 depends.
struct CacheTypeName {
  std::vector<std::string> names = {"auto", "bfloat16", "bf16", "fp8", "fp8_e4m3", "fp8_ds_mla", "float32"};
  std::string operator()(std::string_view text) const {
    if (text != "float32") (void)parse_kv_cache_dtype(text, ops::ComputeDType::bfloat16);
    return std::string(text);
  }
};

/// -1, or whole pages.
struct ChunkSize {
  int64_t operator()(std::string_view text) const {
    if (text == "-1") return -1;
    const int64_t rows = HumanNumber{1, kRowsMax}(text);
    if (rows % ops::kPageTokens == 0) return rows;
    fail(ErrorKind::bad_input, rows, ": expected -1 or a multiple of ", ops::kPageTokens,
         ", the tokens of a page");
  }
};

void add_share_flags(FlagTable& table, ServeFlags& to) {
  const auto above_0_to_1 = [](double share) { return share > 0 && share <= 1; };
  const auto between_0_and_1 = [](double share) { return share > 0 && share < 1; };
  table.add(value_flag("gpu-memory-utilization", to.engine.gpu_memory_utilization,
                       Number{above_0_to_1, "above 0 and at most 1"})
                .metavar("SHARE")
                .help("Share of the device's total memory for everything: weights, step and cache"));
  table.add(value_flag("mem-fraction-static", to.engine.mem_fraction_static,
                       Number{between_0_and_1, "above 0 and below 1"})
                .metavar("SHARE")
                .help("Share of the device's free memory for weights and cache; a step takes the rest"));
}

}  // namespace

void add_memory_flags(FlagTable& table, ServeFlags& to) {
  table.group("Memory", {"CacheConfig"});
  table.add(value_flag("max-model-len", to.memory.max_model_len, HumanNumberOrAuto{})
                .metavar("N")
                .alias("context-length")
                .help("Tokens of prompt and answer together: 131072, 128K, 25.6k, or auto (-1): what fits"));
  table.add(toggle_flag("allow-long-max-model-len", to.engine.allow_long_model_len)
                .env("VLLM_ALLOW_LONG_MAX_MODEL_LEN")
                .env("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")
                .help("Take a --max-model-len above the config's max_position_embeddings"));
  add_share_flags(table, to);
  table.add(value_flag("kv-cache-memory-bytes", to.engine.kv_cache_memory_bytes, HumanNumber{})
                .metavar("BYTES")
                .default_text("")
                .help("Memory of the cache: 8G, 2.5g; wins over the shares. Without any of them on the CPU "
                      "what the requests may need, at most 4 GiB"));
  table.add(value_flag("max-total-tokens", to.engine.max_total_tokens, HumanNumber{ops::kPageTokens})
                .metavar("N")
                .default_text("")
                .help("At most so many tokens in the cache"));
  table.add(value_flag("kv-cache-dtype", to.memory.kv_cache_dtype, CacheTypeName{})
                .metavar("TYPE")
                .help("What the cache's rows are stored in; the fp8 names mean the same rows"));
  table.add(value_flag("indexer-scratch-bytes", to.engine.indexer_scratch_bytes, HumanNumber{})
                .metavar("BYTES")
                .default_text("64M on the CPU, 2G on a GPU")
                .help("What the indexer's scores of a step may take"));
  table.add(value_flag("block-size", to.memory.page_tokens,
                       Choice{{"64"}, {{"", "pages of the cache hold 64 tokens: 64 is possible"}}})
                .metavar("N")
                .alias("page-size")
                .help("Tokens of a page of the cache"));
  table.add(toggle_flag("enable-prefix-caching", to.engine.prefix_caching)
                .off_name("disable-radix-cache")
                .help("Reuse cached pages of equal prompt beginnings"));
  table.add(value_flag("kv-disk-dir", to.engine.kv_disk_dir, Text{})
                .metavar("DIR")
                .help("Folder that keeps cached pages beyond memory and restarts; one server a folder"));
  table.add(value_flag("kv-disk-bytes", to.engine.kv_disk_bytes, HumanNumber{})
                .metavar("BYTES")
                .default_text("")
                .help("What that folder may hold: 500g, 2T; the least recently used pages leave"));

  table.group("Scheduling", {"SchedulerConfig"});
  table.add(value_flag("max-num-seqs", to.memory.max_num_seqs, HumanNumber{1, kSequencesMax})
                .metavar("N")
                .alias("max-running-requests")
                .default_text("16 on the CPU")
                .help("Requests that run together"));
  table.add(value_flag("max-num-batched-tokens", to.memory.max_num_batched_tokens, HumanNumber{1, kRowsMax})
                .metavar("N")
                .default_text("2048 on the CPU")
                .help("Tokens of one step"));
  table.add(value_flag("chunked-prefill-size", to.memory.chunked_prefill_size, ChunkSize{})
                .metavar("N")
                .help("The same in multiples of 64; -1: a prompt in one step"));
  table.add(toggle_flag("enable-chunked-prefill", to.memory.chunked_prefill)
                .help("Read a long prompt over several steps; off: a step holds any whole prompt"));
  table.add(
      value_flag("scheduling-policy", to.scheduling_policy, Choice{{"fcfs", "priority"}})
          .metavar("POLICY")
          .help("fcfs: in the order of arrival; priority: the lowest `priority` of the requests first"));
  table.add(
      value_flag("max-queued-requests", to.engine.queue.requests, WholeNumber{0, 1'000'000'000})
          .metavar("N")
          .alias("max-num-queued-reqs")
          .help("Requests that may wait for one of the --max-num-seqs places; more get 503. 0: no bound"));
  table.add(value_flag("max-queued-tokens", to.engine.queue.tokens, HumanNumber{0})
                .metavar("N")
                .alias("max-num-queued-tokens")
                .help("Tokens of the requests that may wait, such as 2M; more get 503. 0: no bound"));
}

}  // namespace glint
