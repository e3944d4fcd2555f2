// What vLLM and SGLang know and this engine does not need or cannot do. The rule: a flag that changes only
// how fast or in what way the other engine computes is accepted with a warning; one that would change
// answers, protocol or protection is refused. Nothing is ignored that does not stand here.
#include <vector>

#include "flags/groups.h"

namespace glint {

namespace {

struct Kind {
  FlagKind flag;
  bool is_number = false;  // elsewhere: another text is a mistake here, too
};

/// Flags of one reason.
struct Row {
  Kind kind;
  const char* reason;
  std::vector<const char*> names;
};

constexpr Kind kToggle{FlagKind::toggle};
constexpr Kind kValue{FlagKind::value};
constexpr Kind kNumber{FlagKind::value, true};
constexpr Kind kList{FlagKind::list};
constexpr Kind kObject{FlagKind::object};

const char* const kCompiled = "kernels are compiled ahead of time and chosen by the device";
const char* const kGraphs =
    "the engine chooses the steps that it captures as CUDA graphs (--enforce-eager: none)";
const char* const kOneProcess = "one process computes all ranks";
const char* const kTextAlone = "the model takes text alone";
const char* const kNoPython = "this program runs no Python";
const char* const kExperts = "experts are placed in their order";
const char* const kScheduler = "the scheduler has one way of working (docs/engine.md)";
const char* const kTiers = "pages beyond memory are kept by --kv-disk-dir";
const char* const kMapped = "weights stay in the mapped files";
const char* const kPages = "pages are of 64 tokens and hashed in one way";
const char* const kUnlogged = "prompts and answers are not written to the log";
const char* const kGrammars = "there is one maker of grammars (docs/structured-output.md)";
const char* const kMetrics = "the metrics of docs/operations.md are always there";

std::vector<Row> kernel_rows() {
  return {
      {kToggle,
       kCompiled,
       {"disable-flashinfer-autotune", "enable-flashinfer-autotune", "enable-torch-compile",
        "disable-cascade-attn", "enable-flashinfer-allreduce-fusion", "flashinfer-mla-disable-ragged",
        "disable-shared-experts-fusion", "dcp-q-replicate", "disable-chunked-prefix-cache",
        "triton-attention-reduce-in-fp32", "enable-fp32-lm-head",
        "disable-flashinfer-cutlass-moe-fp4-allgather", "calculate-kv-scales", "kv-sharing-fast-prefill",
        "disable-sliding-window"}},
      {kValue,
       kCompiled,
       {"sampling-backend", "prefill-attention-backend", "decode-attention-backend", "fp8-gemm-backend",
        "torchao-config", "performance-mode", "model-impl", "flashinfer-mxfp4-moe-precision"}},
      {kNumber, kCompiled, {"torch-compile-max-bs", "triton-attention-num-kv-splits"}},
      {kObject, kCompiled, {"kernel-config", "additional-config"}},
      {kToggle,
       kGraphs,
       {"disable-cuda-graph-padding", "enable-profile-cuda-graph", "enable-cudagraph-gc",
        "enable-piecewise-cuda-graph", "cudagraph-metrics"}},
      {kNumber, kGraphs, {"cuda-graph-max-bs", "max-cudagraph-capture-size", "max-seq-len-to-capture"}},
      {kList, kGraphs, {"cuda-graph-bs", "cudagraph-capture-sizes", "cuda-graph-sizes"}},
  };
}

std::vector<Row> parallel_rows() {
  return {
      {kToggle,
       kOneProcess,
       {"disable-custom-all-reduce", "enable-nccl-nvls", "enable-symm-mem", "enable-mscclpp",
        "enable-torch-symm-mem", "enable-p2p-check", "ray-workers-use-nsight", "disable-overlap-schedule",
        "async-scheduling", "enable-dbo", "enable-two-batch-overlap", "enable-single-batch-overlap",
        "enable-dp-attention", "enable-dp-lm-head", "data-parallel-hybrid-lb", "data-parallel-external-lb",
        "disable-nccl-for-dp-synchronization", "disable-frontend-multiprocessing",
        "enable-attn-tp-input-scattered"}},
      {kValue,
       kOneProcess,
       {"distributed-executor-backend", "master-addr", "dist-init-addr", "load-balance-method",
        "all2all-backend", "moe-a2a-backend", "deepep-mode", "deepep-config", "data-parallel-address",
        "data-parallel-backend", "numa-node"}},
      {kNumber,
       kOneProcess,
       {"master-port",
        "dist-timeout",
        "nccl-port",
        "base-gpu-id",
        "gpu-id-step",
        "ubatch-size",
        "dbo-decode-token-threshold",
        "dbo-prefill-token-threshold",
        "data-parallel-rank",
        "data-parallel-start-rank",
        "data-parallel-size-local",
        "data-parallel-rpc-port",
        "max-parallel-loading-workers",
        "max-micro-batch-size",
        "pp-max-micro-batch-size",
        "pp-async-batch-depth",
        "moe-dense-tp-size",
        "tokenizer-worker-num",
        "tbo-token-distribution-threshold",
        "dcp-kv-cache-interleave-size",
        "cp-kv-cache-interleave-size"}},
      {kToggle, kExperts, {"enable-eplb", "eplb-log-balancedness", "enable-expert-distribution-metrics"}},
      {kValue,
       kExperts,
       {"expert-placement-strategy", "ep-dispatch-algorithm", "init-expert-location", "eplb-algorithm",
        "expert-distribution-recorder-mode"}},
      {kNumber,
       kExperts,
       {"num-redundant-experts", "ep-num-redundant-experts", "eplb-window-size", "eplb-step-interval",
        "eplb-rebalance-num-iterations", "expert-distribution-recorder-buffer-size"}},
      {kObject, kExperts, {"eplb-config"}},
  };
}

std::vector<Row> memory_rows() {
  return {
      {kValue, kMapped, {"safetensors-load-strategy", "pt-load-map-location", "offload-mode"}},
      {kNumber, kMapped, {"cpu-offload-gb", "swap-space", "safetensors-prefetch-block-size"}},
      {kToggle,
       kMapped,
       {"use-tqdm-on-load", "delete-ckpt-after-loading", "enable-weights-cpu-backup", "enable-memory-saver",
        "weight-loader-disable-mmap"}},
      {kObject, kMapped, {"model-loader-extra-config"}},
      {kToggle, kTiers, {"enable-hierarchical-cache", "enable-lmcache"}},
      {kValue,
       kTiers,
       {"kv-offloading-backend", "hicache-write-policy", "hicache-io-backend", "hicache-mem-layout",
        "hicache-storage-backend", "hicache-storage-prefetch-policy",
        "hicache-storage-backend-extra-config"}},
      {kNumber, kTiers, {"kv-offloading-size", "hicache-ratio", "hicache-size"}},
      {kValue,
       kPages,
       {"prefix-caching-hash-algo", "radix-eviction-policy", "prefix-cache-retention-interval"}},
      {kNumber, kPages, {"num-gpu-blocks-override"}},
      {kToggle, kPages, {"disable-hybrid-kv-cache-manager", "disable-hybrid-swa-memory"}},
      {kValue, kScheduler, {"preemption-mode"}},
      {kNumber,
       kScheduler,
       {"max-prefill-tokens", "max-num-partial-prefills", "max-long-partial-prefills",
        "long-prefill-token-threshold", "num-lookahead-slots", "scheduler-delay-factor",
        "num-scheduler-steps", "num-continuous-decode-steps", "schedule-conservativeness",
        "scheduler-recv-interval", "priority-scheduling-preemption-threshold"}},
      {kToggle,
       kScheduler,
       {"enable-mixed-chunk", "enable-dynamic-chunking", "multi-step-stream-outputs",
        "scheduler-reserve-full-isl", "use-v2-block-manager"}},
      {kToggle,
       kTextAlone,
       {"enable-multimodal", "disable-chunked-mm-input", "skip-mm-profiling", "disable-mm-preprocessor-cache",
        "language-model-only", "disable-fast-image-processor", "keep-mm-feature-on-device",
        "interleave-mm-strings"}},
      {kValue,
       kTextAlone,
       {"mm-processor-cache-type", "mm-encoder-tp-mode", "mm-attention-backend", "mm-encoder-attn-backend",
        "allowed-local-media-path", "mamba-cache-dtype", "mamba-ssm-cache-dtype"}},
      {kNumber, kTextAlone, {"mm-processor-cache-gb"}},
      {kList, kTextAlone, {"allowed-media-domains"}},
      {kObject, kTextAlone, {"limit-mm-per-prompt", "mm-processor-kwargs", "media-io-kwargs"}},
  };
}

std::vector<Row> server_rows() {
  return {
      {kToggle, "no code of a checkpoint is executed", {"trust-remote-code"}},
      {kValue, "no code of a checkpoint is executed", {"code-revision"}},
      {kList, "only the files that are used are downloaded", {"ignore-patterns"}},
      {kToggle, "--reasoning-parser is all that it needs", {"enable-reasoning"}},
      {kToggle, "a chunk carries what is new", {"stream-output"}},
      {kObject, kGrammars, {"structured-outputs-config"}},
      {kValue, kGrammars, {"guided-decoding-backend", "grammar-backend"}},
      {kValue, "a request is one span", {"collect-detailed-traces"}},
      {kValue, "requests store nothing in files", {"file-storage-path"}},
      {kToggle, "the first forward pass is the one of /health/ready", {"skip-server-warmup"}},
      {kValue, "the first forward pass is the one of /health/ready", {"warmups"}},
      {kToggle,
       kMetrics,
       {"enable-server-load-tracking", "kv-cache-metrics", "aggregate-engine-logging", "enable-mfu-metrics",
        "enable-metrics-for-all-schedulers", "collect-tokens-histogram", "enable-layerwise-nvtx-tracing",
        "enable-request-time-stats-logging", "show-time-cost"}},
      {kValue, kMetrics, {"show-hidden-metrics-for-version", "gc-warning-threshold-secs"}},
      {kNumber, kMetrics, {"kv-cache-metrics-sample"}},
      {kList,
       kMetrics,
       {"bucket-time-to-first-token", "bucket-e2e-request-latency", "bucket-inter-token-latency",
        "prompt-tokens-buckets", "generation-tokens-buckets"}},
      {kNumber, "throughput lines come by time: --log-stats-interval", {"decode-log-interval"}},
      {kToggle,
       "tokenizing is done by --http-workers threads",
       {"enable-tokenizer-batch-encode", "disable-tokenizer-batch-decode", "enable-dynamic-batch-tokenizer"}},
      {kToggle,
       kUnlogged,
       {"enable-log-requests", "disable-log-requests", "log-requests", "enable-log-outputs",
        "enable-log-deltas"}},
      {kNumber, kUnlogged, {"max-log-len", "log-requests-level"}},
      {kValue,
       "access lines are written for all routes or, with --disable-access-log, for none",
       {"disable-access-log-for-endpoints"}},
      {kValue,
       "tokenizing is done by --http-workers threads",
       {"tokenizer-pool-type", "tokenizer-pool-extra-config"}},
      {kNumber, "tokenizing is done by --http-workers threads", {"tokenizer-pool-size"}},
      {kValue, "log lines have one form", {"log-config-file"}},
      {kValue, "the last steps are written to --watchdog-dump", {"crash-dump-folder"}},
      {kNumber, "the last steps are written to --watchdog-dump", {"soft-watchdog-timeout"}},
      {kValue,
       "the tokenizer is the one in the model's folder",
       {"tokenizer", "tokenizer-path", "tokenizer-revision"}},
      {kValue, "answers have the role assistant", {"response-role"}},
      {kValue,
       "drafts are made as the model's MTP layer makes them",
       {"speculative-attention-mode", "speculative-token-map", "speculative-moe-runner-backend"}},
      {kToggle, "the model decides: it has one grammar of calls", {"exclude-tools-when-tool-choice-none"}},
      {kToggle, "an answer's error tells what was wrong", {"log-error-stack", "disable-outlines-disk-cache"}},
  };
}

std::vector<Row> refused_rows() {
  return {
      {kList, kNoPython, {"middleware", "logits-processors"}},
      {kValue,
       kNoPython,
       {"tool-parser-plugin", "reasoning-parser-plugin", "worker-cls", "worker-extension-cls",
        "scheduler-cls", "io-processor-plugin"}},
      {kToggle, kNoPython, {"enable-custom-logit-processor"}},
      {kToggle, "adapters are not supported", {"enable-lora", "enable-lora-bias", "fully-sharded-loras"}},
      {kList, "adapters are not supported", {"lora-modules", "lora-paths"}},
      {kValue,
       "adapters are not supported",
       {"max-loras", "max-lora-rank", "max-cpu-loras", "lora-dtype", "lora-backend"}},
      {kObject,
       "there are no connectors between servers; pages beyond memory are kept by --kv-disk-dir",
       {"kv-transfer-config", "ec-transfer-config", "kv-events-config"}},
      {kValue, "prompts and answers are computed by one server", {"disaggregation-mode"}},
      {kObject,
       "the model is what its config.json says",
       {"hf-overrides", "rope-scaling", "json-model-override-args"}},
      {kValue, "the model is what its config.json says", {"rope-theta", "hf-config-path", "config-format"}},
      {kValue,
       "drafts come from the checkpoint's own MTP layer",
       {"speculative-draft-model-path", "speculative-draft-model-revision"}},
      {kValue,
       "a draft is kept only where it is what sampling gives",
       {"speculative-accept-threshold-single", "speculative-accept-threshold-acc"}},
      {kValue, "tools are run by the client", {"tool-server"}},
      {kValue, "everybody on this machine can read it there: put it into HF_TOKEN", {"hf-token"}},
      {kValue, "say --speculative-config '{\"method\": \"mtp\", ...}'", {"speculative-model"}},
      {kValue, "say --speculative-config.num_speculative_tokens", {"num-speculative-tokens"}},
      {kToggle, "say --enable-expert-parallel", {"enable-ep-moe", "enable-deepep-moe"}},
      {kToggle, "lists of experts are shown by glint trace", {"enable-return-routed-experts"}},
      {kToggle, "there is no such route", {"enable-tokenizer-info-endpoint"}},
      {kValue, "say --generation-config auto (model) or vllm (openai)", {"sampling-defaults"}},
      {kObject, "say --override-generation-config", {"preferred-sampling-params"}},
      {kToggle, "this program serves text generation", {"is-embedding"}},
      {kValue, "this program serves text generation", {"convert", "pooler-config"}},
      {kToggle, "requests without a tokenizer are not served", {"skip-tokenizer-init"}},
      {kToggle, "hidden states are shown by glint trace", {"enable-return-hidden-states"}},
      {kToggle, "weights cannot be put to sleep: stop the server", {"enable-sleep-mode"}},
      {kToggle, "prompts are texts or token ids", {"enable-prompt-embeds"}},
      {kToggle, "prompts that are too long are refused with 400", {"allow-auto-truncate"}},
      {kToggle, "one process serves; give each replica its own", {"headless", "grpc-mode"}},
  };
}

}  // namespace

void add_foreign_flags(FlagTable& table) {
  table.group("Flags of other engines");
  for (const auto& rows : {kernel_rows(), parallel_rows(), memory_rows(), server_rows()}) {
    for (const Row& row : rows) {
      for (const char* name : row.names) {
        table.add(row.kind.is_number ? no_effect_number(name, row.reason)
                                     : no_effect_flag(name, row.kind.flag, row.reason));
      }
    }
  }
  table.add(no_effect_flag("optimization-level", FlagKind::value, kCompiled).short_name("O"));
  table.add(no_effect_flag("compilation-config", FlagKind::object, kCompiled).short_name("cc"));
  table.add(no_effect_flag("attention-config", FlagKind::object, kCompiled).short_name("ac"));
  table.add(no_effect_number("api-server-count", kOneProcess).short_name("asc"));
  table.add(no_effect_number("seed", "a request's own seed decides its sampling").alias("random-seed"));
  table.add(no_effect_flag("chat-template-content-format", FlagKind::value,
                           "both forms give this model the same prompt", {"auto", "string", "openai"}));
  for (const char* name : {"runner", "task"})
    table.add(
        no_effect_flag(name, FlagKind::value, "this program serves text generation", {"auto", "generate"}));
  table.add(no_effect_flag("autotune", FlagKind::value, kCompiled, {"off", "cached", "full"}));
  table.add(no_effect_flag("quantization-param-path", FlagKind::value,
                           "the cache's scales are made for each token"));
  table.add(
      no_effect_flag("tokenizer-mode", FlagKind::value, "there is one tokenizer", {"auto", "hf", "slow"}));
  for (const Row& row : refused_rows()) {
    for (const char* name : row.names) table.add(refused_flag(name, row.kind.flag, row.reason));
  }
}

}  // namespace glint
