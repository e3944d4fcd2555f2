// glint serve: the OpenAI-compatible server.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/quantization_config.h"
#include "commands.h"
#include "engine/plan_report.h"
#include "memory_flags.h"
#include "serve_run.h"
#include "server/serve_options.h"

namespace glint {

namespace {

struct Flags {
  std::string folder;
  std::string host = "0.0.0.0";
  int64_t port = 8000;
  std::vector<std::string> served_model_names;
  bool strict_model_name = false;
  MemoryFlags memory;
  bool plan_only = false;
  std::string device_memory;  // of `plan` alone, as the next two
  std::string format;
  bool json = false;
  std::string kv_disk_dir;
  std::string kv_disk_bytes;
  bool prefix_caching = true;
  std::string speculative_config;
  std::string speculative_method;
  std::string speculative_tokens;
  std::string isa;
  int threads = 0;
  int http_threads = 1;
  int http_workers = 2;
  std::vector<std::string> api_keys;
  std::string reasoning_field = "reasoning";
  std::string tool_call_parser = "glm47";
  std::string reasoning_parser = "glm45";
  bool auto_tool_choice = true;
  int64_t max_logprobs = 20;
  std::string logprobs_mode = "raw_logprobs";
  std::string scheduling_policy = "fcfs";
  bool prompt_tokens_details = false;
  bool force_include_usage = false;
  std::string default_chat_template_kwargs;
  std::string generation_config = "auto";
  int64_t shutdown_timeout = 30;
  int64_t max_queued_requests = 4096;
  std::string max_queued_tokens = "0";
  std::string metrics_compat = "vllm";
  bool enable_metrics = false;
  bool disable_log_stats = false;
  int64_t watchdog_timeout = 300;
  std::string watchdog_action = "log";
  std::string watchdog_dump;
  int64_t ready_within = 30;
  bool sleep_on_idle = false;
  bool busy_poll = false;
  std::string log_level = "info";
  bool no_access_log = false;
};

void check_folder(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) {
    fail(ErrorKind::not_found, folder,
         ": no such folder; expected one with config.json, tokenizer.json and safetensors");
  }
  if (!std::filesystem::exists(std::filesystem::path(folder) / "config.json")) {
    fail(ErrorKind::not_found, folder, " does not contain config.json");
  }
}

/// What no memory flag decides.
EngineOptions engine_options(const Flags& flags) {
  EngineOptions options;
  options.prefix_caching = flags.prefix_caching;
  options.logprobs_mode = parse_logprobs_mode(flags.logprobs_mode);
  check_choice("--scheduling-policy", flags.scheduling_policy, {"fcfs", "priority"});
  options.by_priority = flags.scheduling_policy == "priority";
  options.num_speculative_tokens =
      speculative_tokens(flags.speculative_config, flags.speculative_method, flags.speculative_tokens);
  if (!flags.isa.empty()) options.isa = parse_isa(flags.isa);
  options.threads = flags.threads;
  options.kv_disk_dir = flags.kv_disk_dir;
  if (!flags.kv_disk_bytes.empty()) {
    options.kv_disk_bytes = parse_human_integer("--kv-disk-bytes", flags.kv_disk_bytes);
  }
  options.queue.requests = flags.max_queued_requests;
  if (flags.sleep_on_idle && flags.busy_poll) {
    fail(ErrorKind::bad_input, "--sleep-on-idle and --busy-poll exclude each other: give one of them");
  }
  if (flags.sleep_on_idle) options.idle_spin = std::chrono::microseconds(0);
  if (flags.busy_poll) options.idle_spin = std::chrono::microseconds(-1);
  if (flags.max_queued_tokens != "0") {
    options.queue.tokens = parse_human_integer("--max-queued-tokens", flags.max_queued_tokens);
  }
  return options;
}

/// The plan of what the flags ask for on `device`, from config.json alone.
MemoryPlan make_plan(const Flags& flags, const DeviceMemory& device) {
  const ModelConfig config = load_model_config(flags.folder);
  DeclaredForm form = declared_form(flags.folder);
  if (!flags.format.empty()) form.format = parse_format(flags.format);
  std::vector<std::string> notes;
  const PlanRequest request = plan_request(flags.memory, config, form, device, engine_options(flags), notes);
  MemoryPlan plan = plan_memory(config, request);
  plan.notes.insert(plan.notes.begin(), notes.begin(), notes.end());
  return plan;
}

void print_plan(const MemoryPlan& plan, bool json) {
  if (json) {
    std::cout << plan_json(plan).dump(2) << "\n";
    return;
  }
  std::cout << plan_table(plan);
  for (const std::string& line : plan_lines(plan)) std::cout << line << "\n";
}

void run_plan(const Flags& flags) {
  const DeviceMemory device =
      flags.device_memory.empty() ? this_machine() : parse_device_memory(flags.device_memory);
  print_plan(make_plan(flags, device), flags.json);
}

ApiSettings api_settings(const Flags& flags) {
  ApiSettings settings;
  settings.model_names = served_names(flags.served_model_names, flags.folder);
  if (!flags.strict_model_name) settings.model_aliases.push_back(flags.folder);
  settings.model_root = flags.folder;
  settings.api_keys = flags.api_keys;
  if (settings.api_keys.empty()) {
    if (const char* key = std::getenv("VLLM_API_KEY"); key != nullptr) settings.api_keys.emplace_back(key);
  }
  for (const std::string& key : flags.api_keys) {
    if (key.empty()) fail(ErrorKind::bad_input, "argument --api-key: a key must not be empty");
  }
  settings.reasoning_field = parse_reasoning_field(flags.reasoning_field);
  settings.auto_tool_choice = flags.auto_tool_choice;
  settings.max_logprobs = flags.max_logprobs;
  settings.prompt_tokens_details = flags.prompt_tokens_details;
  settings.force_include_usage = flags.force_include_usage;
  settings.default_chat_template_kwargs =
      parse_json_object_flag("--default-chat-template-kwargs", flags.default_chat_template_kwargs);
  settings.metrics = parse_metrics_compat(flags.metrics_compat);
  if (flags.enable_metrics) settings.metrics.sglang = true;
  check_choice("--watchdog-action", flags.watchdog_action, {"log", "exit"});
  settings.health.watchdog = {.step_limit = std::chrono::seconds(flags.watchdog_timeout),
                              .dump_file = flags.watchdog_dump,
                              .exit = flags.watchdog_action == "exit"};
  settings.health.ready_within = std::chrono::seconds(flags.ready_within);
  return settings;
}

/// Seconds between throughput lines; 0: none.
std::chrono::seconds stats_period(const Flags& flags) {
  if (flags.disable_log_stats) return std::chrono::seconds(0);
  const char* text = std::getenv("VLLM_LOG_STATS_INTERVAL");
  if (text == nullptr) return std::chrono::seconds(10);
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds >= 1 && seconds <= 86400)) {
    fail(ErrorKind::bad_input, "VLLM_LOG_STATS_INTERVAL=", text, ": expected seconds, 1 to 86400");
  }
  return std::chrono::seconds(static_cast<int64_t>(seconds));
}

void run(const Flags& flags) {
  set_log_level(parse_log_level(flags.log_level));
  check_choice("--tool-call-parser", flags.tool_call_parser, {"glm47", "glm45", "glm"});
  check_choice("--reasoning-parser", flags.reasoning_parser, {"glm45", "glm47", "glm"});
  ServeOptions options;
  options.folder = flags.folder;
  options.api = api_settings(flags);
  options.http.host = flags.host;
  options.http.port = static_cast<int>(flags.port);
  options.http.threads = flags.http_threads;
  options.worker_threads = flags.http_workers;
  options.generation_config = flags.generation_config;
  options.shutdown_timeout = std::chrono::seconds(flags.shutdown_timeout);
  options.access_log = !flags.no_access_log;
  options.stats_period = stats_period(flags);
  const char* stay = std::getenv("VLLM_KEEP_ALIVE_ON_ENGINE_DEATH");
  options.stay_when_dead = stay != nullptr && std::string_view(stay) != "0" && *stay != '\0';
  check_folder(flags.folder);
  options.plan = make_plan(flags, this_machine());
  if (flags.plan_only) {
    print_plan(options.plan, flags.json);
    return;
  }
  run_server(std::move(options));
}

void add_model_flags(CLI::App& command, Flags& flags) {
  command.add_option("DIR,--model", flags.folder, "The checkpoint's folder")->required();
  command.add_option("--served-model-name", flags.served_model_names,
                     "Names of the model in requests; answers carry the first. Without it: DIR");
  command.add_flag("--strict-model-name", flags.strict_model_name,
                   "Accept the served names only, not DIR beside them");
  command
      .add_option("--scheduling-policy", flags.scheduling_policy,
                  "fcfs: in the order of arrival; priority: the lowest `priority` of the requests first")
      ->capture_default_str();
  add_memory_flags(command, flags.memory);
  command.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching,!--disable-radix-cache",
                   flags.prefix_caching, "Reuse cached pages of equal prompt beginnings (on by default)");
  command.add_option("--kv-disk-dir", flags.kv_disk_dir,
                     "Folder that keeps cached pages beyond memory and restarts; one server a folder");
  command.add_option("--kv-disk-bytes", flags.kv_disk_bytes,
                     "What that folder may hold: 500g, 2T; the least recently used pages leave");
  command.add_option("--speculative-config", flags.speculative_config,
                     R"(Drafting as JSON: {"method": "mtp", "num_speculative_tokens": 5})");
  command.add_option("--speculative-config.method", flags.speculative_method,
                     "mtp: the model's own MTP layer drafts");
  command.add_option("--speculative-config.num_speculative_tokens", flags.speculative_tokens,
                     "Drafts of a sequence in one step, 1 to 8");
  command.add_option("--threads", flags.threads, "Threads of the model; without it one per CPU")
      ->check(whole_number(1, 1024));
  command.add_option("--isa", flags.isa,
                     "portable, avx2, avx512 or avx512_bf16; without it the best there is");
  command
      .add_option("--generation-config", flags.generation_config,
                  "Defaults of requests: auto (the model's generation_config.json), vllm (none), or a folder")
      ->capture_default_str();
}

void add_api_flags(CLI::App& command, Flags& flags) {
  command.add_option("--api-key", flags.api_keys,
                     "Keys that clients must send (else VLLM_API_KEY; else open)");
  command
      .add_option("--reasoning-field", flags.reasoning_field,
                  "Field of the reasoning: reasoning, reasoning_content or both")
      ->capture_default_str();
  command
      .add_option("--tool-call-parser", flags.tool_call_parser, "glm47, glm45 or glm: one parser reads all")
      ->capture_default_str();
  command
      .add_option("--reasoning-parser", flags.reasoning_parser, "glm45, glm47 or glm: one parser reads all")
      ->capture_default_str();
  command
      .add_option("--max-logprobs", flags.max_logprobs,
                  "Alternatives of a token that a request may ask for; -1: the whole vocabulary")
      ->check(integer(-1, 1 << 24))
      ->capture_default_str();
  command
      .add_option("--logprobs-mode", flags.logprobs_mode,
                  "What logprobs report: raw_logprobs, raw_logits, processed_logprobs or processed_logits")
      ->capture_default_str();
  command.add_flag("--enable-prompt-tokens-details", flags.prompt_tokens_details,
                   "usage tells how many tokens of the prompt were cached");
  command.add_flag("--enable-force-include-usage", flags.force_include_usage,
                   "Streams end with a usage chunk, asked for or not");
  command.add_flag("--enable-auto-tool-choice,!--no-enable-auto-tool-choice", flags.auto_tool_choice,
                   "Let the model decide on tool calls (the default)");
  command.add_option("--default-chat-template-kwargs", flags.default_chat_template_kwargs,
                     "JSON object of template variables, below the request's own");
}

void add_server_flags(CLI::App& command, Flags& flags) {
  command.add_option("--host", flags.host, "Address to listen on")->capture_default_str();
  command.add_option("--port", flags.port, "Port to listen on; 0: any free one, which is printed")
      ->check(whole_number(0, 65535))
      ->capture_default_str();
  command.add_option("--http-threads", flags.http_threads, "Threads that talk to clients")
      ->check(whole_number(1, 64))
      ->capture_default_str();
  command.add_option("--http-workers", flags.http_workers, "Threads that read requests and tokenize")
      ->check(whole_number(1, 64))
      ->capture_default_str();
  command
      .add_option("--shutdown-timeout", flags.shutdown_timeout,
                  "Seconds that requests in flight get after SIGTERM; 0 ends them at once")
      ->check(whole_number(0, 86400))
      ->capture_default_str();
  command
      .add_option("--log-level,--uvicorn-log-level", flags.log_level,
                  "trace, debug, info, warning, error, critical or off")
      ->capture_default_str();
  command.add_flag("--disable-access-log,--disable-uvicorn-access-log", flags.no_access_log,
                   "No line for each request");
}

void add_operations_flags(CLI::App& command, Flags& flags) {
  command
      .add_option("--max-queued-requests", flags.max_queued_requests,
                  "Requests that may wait for one of the --max-num-seqs places; more get 503. 0: no bound")
      ->check(whole_number(0, 1'000'000'000))
      ->capture_default_str();
  command
      .add_option("--max-queued-tokens", flags.max_queued_tokens,
                  "Tokens of the requests that may wait, such as 2M; more get 503. 0: no bound")
      ->capture_default_str();
  command
      .add_option("--metrics-compat", flags.metrics_compat,
                  "Names on /metrics: vllm, sglang, or both with a comma; ours are always there")
      ->capture_default_str();
  command.add_flag("--enable-metrics", flags.enable_metrics, "SGLang's names on /metrics too");
  command.add_flag("--disable-log-stats", flags.disable_log_stats, "No throughput lines");
  command.add_flag("--sleep-on-idle", flags.sleep_on_idle,
                   "An idle engine sleeps at once; without it after looking for work for 50 us");
  command.add_flag("--busy-poll", flags.busy_poll,
                   "An idle engine never sleeps: one core for a faster start");
}

void add_health_flags(CLI::App& command, Flags& flags) {
  command
      .add_option("--watchdog-timeout", flags.watchdog_timeout,
                  "Seconds that a step may take before /health is 503 and the last steps are logged; 0: any")
      ->check(whole_number(0, 86400))
      ->capture_default_str();
  command
      .add_option("--watchdog-action", flags.watchdog_action,
                  "log: report and go on if the step ends after all; exit: report and end the process")
      ->capture_default_str();
  command.add_option("--watchdog-dump", flags.watchdog_dump,
                     "File for the last 1,000 steps of such a report");
  command
      .add_option("--ready-within", flags.ready_within,
                  "Seconds within which a forward pass must have run for /health/ready; an idle server runs "
                  "one token of its own in half of it; 0: off")
      ->check(whole_number(0, 86400))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("serve", "Serve a checkpoint over HTTP, as OpenAI's API");
  const auto flags = std::make_shared<Flags>();
  add_model_flags(*command, *flags);
  add_api_flags(*command, *flags);
  add_server_flags(*command, *flags);
  add_operations_flags(*command, *flags);
  add_health_flags(*command, *flags);
  command->add_flag("--plan-only", flags->plan_only, "Print the memory plan and end");
  command->add_flag("--json", flags->json, "With --plan-only: as JSON, in bytes");
  command->callback([flags] { run(*flags); });
}

void add_plan(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "plan", "Show what serving a model would take of every device, from its config.json alone");
  const auto flags = std::make_shared<Flags>();
  add_model_flags(*command, *flags);
  add_api_flags(*command, *flags);
  add_server_flags(*command, *flags);
  add_operations_flags(*command, *flags);
  add_health_flags(*command, *flags);
  command->add_option("--device-memory", flags->device_memory,
                      "The GPUs to plan for: 8x141GB, 8xH200, 7xRTX6000; without it this machine's CPU");
  command->add_option("--format", flags->format,
                      "bf16, fp8 or nvfp4; without it what config.json says of the checkpoint");
  command->add_flag("--json", flags->json, "As JSON, in bytes");
  command->callback([flags] { run_plan(*flags); });
}

}  // namespace glint
