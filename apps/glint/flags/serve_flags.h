// The flags of `glint serve`, `glint launch_server` and `glint plan`: one table, and where its values go.
//
// To add a flag: give its setting a member with a default in the struct that uses it (ServeOptions,
// ApiSettings, HttpOptions, EngineOptions), then one `table.add(...)` in the file of its group
// (model_flags.cc, memory_flags.cc, ...). Help, man page, completions, YAML and the test of all illegal
// values follow.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/flags/flag_table.h"
#include "base/log.h"
#include "engine/device_choice.h"
#include "engine/engine_options.h"
#include "ops/types.h"
#include "serve_run.h"

namespace glint {

/// What decides memory; an empty optional: not given.
struct MemoryFlags {
  std::optional<int64_t> max_model_len;  // empty: auto
  std::optional<int64_t> max_num_seqs;
  std::optional<int64_t> max_num_batched_tokens;
  std::optional<int64_t> chunked_prefill_size;  // -1: a prompt in one step
  std::string kv_cache_dtype = "auto";
  std::string partition;  // "10,12,12"
  std::optional<int64_t> tensor_parallel_size;
  std::optional<int64_t> pipeline_parallel_size;
  int64_t decode_context_parallel_size = 1;
  bool stripe_index_keys = false;
  bool strict_boundaries = false;
  bool expert_parallel = false;
  std::optional<int64_t> expert_parallel_size;
  int64_t data_parallel_size = 1;
  bool chunked_prefill = true;
  std::string page_tokens = "64";
};

/// SGLang's words for drafting.
struct DraftFlags {
  std::string algorithm;  // empty: not given
  std::optional<int64_t> steps, topk, tokens;
};

struct ServeFlags {
  ServeFlags() { engine.queue.requests = 4096; }

  std::string form;  // "serve", "launch_server" or "plan"
  std::string config_file;
  std::string model;                   // a folder, or ORG/NAME of a hub
  std::string revision, download_dir;  // of a hub's model
  std::vector<std::string> served_model_names;
  bool strict_model_name = false;
  bool plan_only = false;
  bool json = false;
  std::string device_memory;  // of `plan` alone, as the next
  std::string format;
  DeviceChoice device;  // what computes
  bool enforce_eager = false;
  MemoryFlags memory;
  std::string one_machine = "1", first_node = "0", one_prefill_rank = "1";  // no other value is possible
  std::string load_format = "auto";                                         // likewise
  std::string quantization;                                                 // empty: not given
  ops::ComputeDType dtype = ops::ComputeDType::bfloat16;
  OrderedJson speculative_config = OrderedJson::object();
  DraftFlags sglang_drafts;
  std::string linear_backend = "auto", moe_backend = "auto", attention_backend = "auto";
  std::string dsa_prefill_backend = "auto", dsa_decode_backend = "auto";
  bool enable_auto_tool_choice = false;
  std::string tool_call_parser = "glm47";
  std::string reasoning_parser = "glm45";
  std::string chat_template;  // "": the model folder's
  std::string scheduling_policy = "fcfs";
  bool enable_metrics = false;
  bool disable_log_stats = false;
  std::chrono::seconds stats_interval{10};
  std::string watchdog_action = "log";
  bool enable_trace = false;
  bool sleep_on_idle = false;
  bool busy_poll = false;
  LogLevel log_level = LogLevel::info;
  bool disable_access_log = false;
  LogLevel http_log_level = LogLevel::info;
  bool priority_scheduling = false, low_priority_first = false;  // SGLang's words

  EngineOptions engine;  // what no member above decides
  ServeOptions serve;    // likewise
};

/// The program forms that share the table.
inline constexpr std::string_view kServe = "serve";
inline constexpr std::string_view kLaunchServer = "launch_server";
inline constexpr std::string_view kPlan = "plan";

/// The table of `form`, bound to `flags`, which gets the form's own defaults. `flags` outlives the table.
FlagTable serve_table(std::string_view form, ServeFlags& flags);

}  // namespace glint
