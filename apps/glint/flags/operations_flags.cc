#include "base/cpu_features.h"
#include "flags/groups.h"

namespace glint {

namespace {

constexpr WholeSeconds kUpToADay{0, 86400};

/// vLLM's variable may have decimals, which are cut off.
struct Interval {
  std::chrono::seconds operator()(std::string_view text) const {
    const auto holds = [](double seconds) { return seconds >= 1 && seconds <= 86400; };
    return std::chrono::seconds(static_cast<int64_t>(Number{holds, "of seconds from 1 to 86400"}(text)));
  }
};

void add_health_flags(FlagTable& table, ServeFlags& to) {
  table.group("Health");
  table.add(value_flag("watchdog-timeout", to.serve.api.health.watchdog.step_limit, kUpToADay)
                .metavar("SECONDS")
                .help("What a step may take before /health is 503 and the last steps are logged; 0: any"));
  table.add(value_flag("watchdog-action", to.watchdog_action, Choice{{"log", "exit"}})
                .metavar("ACTION")
                .help("log: report and go on if the step ends after all; exit: report and end the process"));
  table.add(value_flag("watchdog-dump", to.serve.api.health.watchdog.dump_file, Text{})
                .metavar("FILE")
                .help("File for the last 1,000 steps of such a report"));
  table.add(value_flag("ready-within", to.serve.api.health.ready_within, kUpToADay)
                .metavar("SECONDS")
                .help("Within which a forward pass must have run for /health/ready; an idle server runs one "
                      "token of its own in half of it; 0: off"));
}

void add_log_flags(FlagTable& table, ServeFlags& to) {
  table.group("Logs and metrics", {"ObservabilityConfig"});
  const ReadBy<LogLevel> level{
      parse_log_level, {"trace", "debug", "info", "warning", "error", "critical", "off"}, "info"};
  table.add(value_flag("log-level", to.log_level, level)
                .metavar("LEVEL")
                .env("VLLM_LOGGING_LEVEL")
                .help("The least important lines that are written"));
  table.add(value_flag("uvicorn-log-level", to.http_log_level, level)
                .metavar("LEVEL")
                .alias("log-level-http")
                .help("Above info: no line for each request"));
  table.add(toggle_flag("disable-access-log", to.disable_access_log)
                .alias("disable-uvicorn-access-log")
                .help("No line for each request"));
  table.add(toggle_flag("disable-log-stats", to.disable_log_stats).help("No throughput lines"));
  table.add(value_flag("log-stats-interval", to.stats_interval, Interval{})
                .metavar("SECONDS")
                .env("VLLM_LOG_STATS_INTERVAL")
                .help("Time between two throughput lines"));
  table.add(value_flag("metrics-compat", to.serve.api.metrics,
                       ReadBy<MetricsCompat>{parse_metrics_compat, {"vllm", "sglang", "vllm,sglang"}, "vllm"})
                .metavar("NAMES")
                .help("Names on /metrics; ours are always there"));
  table.add(toggle_flag("enable-metrics", to.enable_metrics).help("SGLang's names on /metrics too"));
}

}  // namespace

void add_operations_flags(FlagTable& table, ServeFlags& to) {
  table.group("Process");
  table.add(value_flag("threads", to.engine.threads, WholeNumber{1, 1024})
                .metavar("N")
                .default_text("one per CPU")
                .help("Threads of the model"));
  table.add(
      value_flag("isa", to.engine.isa,
                 ReadBy<Isa>{parse_isa, {"portable", "avx2", "avx512", "avx512_bf16"}, "the best there is"})
          .metavar("SET")
          .help("Instruction set of the CPU's kernels"));
  table.add(toggle_flag("sleep-on-idle", to.sleep_on_idle)
                .help("An idle engine sleeps at once; without it after looking for work for 50 us"));
  table.add(toggle_flag("busy-poll", to.busy_poll)
                .help("An idle engine never sleeps: a core for a quicker start of a step"));
  table.add(value_flag("shutdown-timeout", to.serve.shutdown_timeout, kUpToADay)
                .metavar("SECONDS")
                .help("What requests in flight get after SIGTERM; 0 ends them at once"));
  table.add(toggle_flag("keep-alive-on-engine-death", to.serve.stay_when_dead)
                .env("VLLM_KEEP_ALIVE_ON_ENGINE_DEATH")
                .help("Keep answering (503) after the engine has died"));
  table.add(toggle_flag("plan-only", to.plan_only)
                .only(std::string(kServe))
                .only(std::string(kLaunchServer))
                .help("Print the memory plan and end"));
  table.add(toggle_flag("json", to.json).help("The memory plan as JSON, in bytes"));
  add_health_flags(table, to);
  add_log_flags(table, to);
}

}  // namespace glint
