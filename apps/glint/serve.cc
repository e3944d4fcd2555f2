// glint serve, glint launch_server and glint plan: one table of flags (flags/serve_flags.h), one life.

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/flags/flag_parse.h"
#include "base/flags/help.h"
#include "checkpoint/quantization_config.h"
#include "commands.h"
#include "engine/flags.h"
#include "engine/plan_report.h"
#include "flags/kernel_names.h"
#include "flags/launcher_variables.h"
#include "flags/serve_flags.h"
#include "flags/speculation.h"
#include "places.h"
#include "plan_request.h"
#include "serve_run.h"
#include "server/serve_options.h"

namespace glint {

namespace {

void check_folder(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    fail(ErrorKind::not_found, folder.string(),
         ": no such folder; expected one with config.json, tokenizer.json and safetensors");
  }
  std::error_code error;
  const bool there = std::filesystem::exists(folder / "config.json", error);
  if (error) fail(ErrorKind::bad_input, folder.string(), ": cannot be read: ", error.message());
  if (!there) {
    fail(ErrorKind::not_found, folder.string(), " does not contain config.json");
  }
}

ResolveOptions source_options(const ServeFlags& flags) {
  ResolveOptions options;
  options.revision = flags.revision;
  options.download_dir = flags.download_dir;
  return options;
}

/// The model with what a plan needs; a hub's weights come later, with the port open.
ResolvedModel find_config(const ServeFlags& flags) {
  ResolveOptions options = source_options(flags);
  options.files = ModelFiles::config;
  const std::optional<ResolvedModel> model = resolve_model(flags.model, options);
  GLINT_CHECK(model.has_value());  // nothing asked it to stop
  if (model->source == ResolvedModel::Source::folder && !flags.revision.empty()) {
    fail(ErrorKind::bad_input, "argument --revision: ", flags.model,
         " is a folder, which has no revisions: name a model of the hub as ORG/NAME, or leave it out");
  }
  return *model;
}

/// What no memory flag decides.
EngineOptions engine_options(const ServeFlags& flags) {
  EngineOptions options = flags.engine;
  options.by_priority = flags.scheduling_policy == "priority" || flags.priority_scheduling;
  if (flags.priority_scheduling && !flags.low_priority_first) {
    fail(ErrorKind::unsupported,
         "argument --enable-priority-scheduling: the lowest priority comes first here: add "
         "--schedule-low-priority-values-first");
  }
  options.num_speculative_tokens = drafts_asked(flags);
  if (options.num_speculative_tokens == 0 && flags.serve.api.answer_metrics.drafts != DraftMetrics::none) {
    fail(ErrorKind::bad_input,
         "argument --per-request-spec-decode-metrics: there are no drafts without --speculative-config");
  }
  if (flags.sleep_on_idle && flags.busy_poll) {
    fail(ErrorKind::bad_input,
         "argument --busy-poll: --sleep-on-idle and --busy-poll exclude each other: give one of them");
  }
  if (flags.sleep_on_idle) options.idle_spin = std::chrono::microseconds(0);
  if (flags.busy_poll) options.idle_spin = std::chrono::microseconds(-1);
  options.cuda.graphs = !flags.enforce_eager;
  return options;
}

/// The plan of what the flags ask for on `device`, from the config.json of `folder` alone.
MemoryPlan make_plan(const ServeFlags& flags, const std::string& folder, const DeviceMemory& device) {
  const ModelConfig config = load_model_config(folder);
  DeclaredForm form = declared_form(folder);
  if (!flags.format.empty()) form.format = parse_format(flags.format);
  if (!flags.quantization.empty()) check_quantization(flags.quantization, form);
  std::vector<std::string> notes;
  check_kernel_names(flags, form.format);
  const PlanRequest request = plan_request(flags, config, form, device, engine_options(flags), notes);
  MemoryPlan plan = plan_memory(config, request);
  for (std::string& line : kernel_notes(flags, device.name)) notes.push_back(std::move(line));
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

/// Completes what the table has put into flags.serve.
ServeOptions serve_options(const ServeFlags& flags) {
  ServeOptions options = flags.serve;
  if (!flags.chat_template.empty()) options.chat_template = ChatTemplate::from_flag(flags.chat_template);
  options.model = flags.model;
  options.source = source_options(flags);
  options.api.model_names = served_names(flags.served_model_names, flags.model);
  if (!flags.strict_model_name) options.api.model_aliases.push_back(flags.model);
  options.api.model_root = flags.model;
  SamplingDefaults checked;
  set_sampling_defaults(flags.serve.override_generation_config, "argument --override-generation-config",
                        checked);
  check_tls_options(options.http.tls);
  std::string& collector = options.api.traces.endpoint;
  if (flags.enable_trace && collector.empty()) collector = "http://localhost:4318/v1/traces";
  options.api.traces = trace_options(collector);
  options.api.auto_tool_choice = flags.enable_auto_tool_choice;
  if (flags.enable_metrics) options.api.metrics.sglang = true;
  options.api.health.watchdog.exit = flags.watchdog_action == "exit";
  options.sglang_lines = flags.form == kLaunchServer;
  options.access_log = !flags.disable_access_log && flags.http_log_level <= LogLevel::info;
  options.stats_period = flags.disable_log_stats ? std::chrono::seconds(0) : flags.stats_interval;
  return options;
}

void run(const ServeFlags& flags) {
  if (flags.model.empty()) fail(ErrorKind::bad_input, "the following arguments are required: MODEL");
  ServeOptions options = serve_options(flags);
  if (flags.form != kPlan && !flags.plan_only) check_places(flags);
  const ResolvedModel model = find_config(flags);
  options.folder = model.folder.string();
  options.dummy_weights = flags.load_format == "dummy";
  if (flags.form == kPlan) {
    const bool here = flags.device_memory.empty();
    print_plan(make_plan(flags, options.folder,
                         here ? open_device(flags.device) : parse_device_memory(flags.device_memory)),
               flags.json);
    return;
  }
  check_folder(model.folder);
  options.plan = make_plan(flags, options.folder, open_device(flags.device));
  if (flags.plan_only) {
    print_plan(options.plan, flags.json);
    return;
  }
  if (!model.commit.empty()) options.source.revision = model.commit;  // weights of the planned config
  run_server(std::move(options));
}

/// What is legal and may surprise, one line each. Throws for what vLLM refuses at the start, too.
std::vector<std::string> cautions(const ServeFlags& flags, const FlagReport& report) {
  std::vector<std::string> lines;
  const bool parser_named = report.has("tool-call-parser");
  if (flags.form == kServe && flags.enable_auto_tool_choice && !parser_named) {
    fail(ErrorKind::bad_input,
         "argument --enable-auto-tool-choice: --enable-auto-tool-choice requires --tool-call-parser");
  }
  if (flags.form == kServe && parser_named && !flags.enable_auto_tool_choice) {
    lines.emplace_back(
        "--tool-call-parser without --enable-auto-tool-choice: requests with tools and tool_choice auto are "
        "refused, as in vLLM");
  }
  if (flags.tool_call_parser == "glm45") {
    lines.emplace_back(
        "--tool-call-parser glm45 names an older model's format: this model's, glm47, is read");
  }
  return lines;
}

/// Columns of the terminal, for help.
int terminal_width() {
  const char* const columns = std::getenv("COLUMNS");
  const int width = columns == nullptr ? 0 : std::atoi(columns);
  return width >= 40 && width <= 400 ? width : 100;
}

/// `message` with the flag that it begins with as it was said: another name of it, or a line of the file.
std::string in_words_given(std::string message, const FlagReport& report) {
  for (const auto& [name, source] : report.given) {
    const std::string own = cat("argument --", name, ": ");
    if (message.starts_with(own) && source != "the bare word")
      return message.replace(0, own.size() - 2, source);
  }
  return message;
}

}  // namespace

bool is_serve_form(std::string_view word) {
  return word == kServe || word == kLaunchServer || word == kPlan;
}

void run_serve_form(std::string_view form, const std::vector<std::string>& words) {
  ServeFlags flags;
  const FlagTable table = serve_table(form, flags);
  const Environment environment = [](const char* name) { return std::getenv(name); };
  const FlagReport report = parse_flags(table, words, environment);
  if (report.help) {
    std::cout << help_text(table, *report.help, terminal_width());
    return;
  }
  if (form != kPlan) check_launcher(environment);
  set_log_level(flags.log_level);
  std::vector<std::string> warnings = report.warnings;
  for (std::string& line : cautions(flags, report)) warnings.push_back(std::move(line));
  for (std::string& line : variables_without_effect(table, environment_names()))
    warnings.push_back(std::move(line));
  for (const std::string& line : warnings) {
    if (log_enabled(LogLevel::warning)) std::cerr << "WARNING: " << line << "\n";
  }
  try {
    run(flags);
  } catch (const Error& error) {
    throw Error(error.kind(), in_words_given(error.what(), report));
  }
}

}  // namespace glint
