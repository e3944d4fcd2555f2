// glint quantize: converts a checkpoint, BF16 or FP8 blocks to NVFP4, FP8 blocks or BF16.

#include "quantize/quantize.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "commands.h"
#include "model_option.h"
#include "quantize/manifest.h"

namespace glint {

namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  quantize::QuantizeOptions options;
  ModelOption source;
  std::string out;
  std::string format = "nvfp4-experts";
  std::string global_scale = "exact";
  std::string scale_search = "max";
  std::string kv_cache_hint = "fp8";
  std::string isa;
  bool dry_run = false;
  bool json = false;
};

/// One JSON object a line on standard output, for scripts.
void emit(const OrderedJson& event) {
  std::cout << dump_json(event) << std::endl;
}

OrderedJson plan_event(const quantize::Plan& plan) {
  return {{"event", "plan"},
          {"plan", plan.hash},
          {"source_tensors", plan.source_counts.total().tensors},
          {"source_bytes", plan.source_bytes()},
          {"output_tensors", plan.output_counts.total().tensors},
          {"output_bytes", plan.output_bytes()},
          {"source_shards", plan.files.size()},
          {"output_shards", plan.shards.size()},
          {"converted_tensors", plan.quantized},
          {"expert_bundles", plan.expert_bundles},
          {"split_pairs", plan.split_pairs},
          {"reread_bytes", plan.reread_bytes},
          {"buffer_bytes_max", plan.memory_bytes()},
          {"workers", plan.workers}};
}

/// Progress lines every half second.
class JsonProgress {
 public:
  void update(int64_t done, int64_t total) {
    const auto now = Clock::now();
    if (now - shown_ < std::chrono::milliseconds(500) && done < total) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    emit({{"event", "progress"},
          {"done_bytes", done},
          {"total_bytes", total},
          {"bytes_per_second", rate},
          {"seconds_left", rate > 0 ? static_cast<double>(total - done) / rate : 0.0}});
  }

 private:
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

void report(const Flags& flags, const quantize::Plan& plan, const quantize::QuantizeOutcome& outcome) {
  const quantize::CodingStats& total = outcome.total;
  const double gain = quantize::search_gain_percent(total);
  if (flags.json) {
    return emit({{"event", "done"},
                 {"was_complete", outcome.was_complete},
                 {"seconds", outcome.seconds},
                 {"bytes_read", outcome.bytes_read},
                 {"peak_buffer_bytes", outcome.peak_buffer_bytes},
                 {"relative_rmse", total.relative_rmse()},
                 {"snr_db", quantize::snr_db(total.power, total.error)},
                 {"search_gain_percent", gain}});
  }
  if (outcome.was_complete) {
    std::cout << flags.out << ": is complete already\n";
    return;
  }
  std::printf("%s: %lld tensors in %zu shards, %lld bytes, %.1f s\n", flags.out.c_str(),
              static_cast<long long>(plan.output_counts.total().tensors), plan.shards.size(),
              static_cast<long long>(plan.output_counts.total().bytes), outcome.seconds);
  if (!total.coded) return;
  std::printf("relative RMSE of the coded weights %.4f (%.2f dB)", total.relative_rmse(),
              quantize::snr_db(total.power, total.error));
  if (flags.options.scale_search == quantize::ScaleSearch::mse) {
    std::printf(", %.1f %% less than by the maximum", gain);
  }
  std::printf("; each tensor in %s\n", quantize::kReportName);
}

void run(Flags& flags) {
  quantize::QuantizeOptions& options = flags.options;
  options.source = find_model(flags.source, ModelFiles::all).folder;
  options.out = flags.out;
  options.target = quantize::parse_target(flags.format);
  options.global_scale = quantize::parse_global_scale(flags.global_scale);
  options.scale_search = quantize::parse_scale_search(flags.scale_search);
  options.kv_cache_hint = quantize::parse_kv_cache_hint(flags.kv_cache_hint);
  if (!flags.isa.empty()) options.isa = parse_isa(flags.isa);
  const quantize::Plan plan = quantize::make_plan(options);
  if (flags.json) emit(plan_event(plan));
  if (flags.dry_run) {
    if (!flags.json) std::cout << quantize::plan_text(plan, options);
    return quantize::check_places(options, plan);
  }
  Progress bar("Converting " + flags.out);
  JsonProgress lines;
  int64_t last_total = 0;
  quantize::QuantizeHooks hooks;
  hooks.program_version = GLINT_VERSION;
  hooks.progress = [&](int64_t done, int64_t total) {
    last_total = total;
    if (flags.json) {
      lines.update(done, total);
    } else {
      bar.update(done, total);
    }
  };
  const quantize::QuantizeOutcome outcome = quantize::quantize(options, plan, hooks);
  if (!flags.json && !outcome.was_complete) bar.finish(last_total);
  report(flags, plan, outcome);
}

void add_flags(CLI::App& command, Flags& flags) {
  command
      .add_option("source", flags.source.name,
                  "The checkpoint to convert (BF16 or FP8 blocks): a folder, or ORG/NAME of a hub")
      ->required();
  add_model_options(command, flags.source);
  command.add_option("out", flags.out, "The folder to write; it appears when it is complete")->required();
  command
      .add_option("--format", flags.format,
                  "nvfp4-experts (routed experts in ModelOpt's NVFP4, the rest BF16), nvfp4-experts+fp8 (the "
                  "rest in FP8 blocks), fp8-block or bf16")
      ->capture_default_str();
  command
      .add_option("--global-scale", flags.global_scale,
                  "Rounding of weight_scale_2: exact, or torch-cuda as a GPU's PyTorch divides")
      ->capture_default_str();
  command
      .add_option("--scale-search", flags.scale_search,
                  "Block scales by max, or by mse: the neighbour with the smallest squared error; same size "
                  "and layout")
      ->capture_default_str();
  command
      .add_option("--exclude", flags.options.exclude,
                  "Modules that stay BF16 (shell wildcards: 'model.layers.3.mlp.experts*'); repeatable")
      ->allow_extra_args(false);
  command
      .add_option("--kv-cache-hint", flags.kv_cache_hint,
                  "What the configs say of the KV cache: fp8, as the published files do, or none")
      ->capture_default_str();
  command
      .add_option("--workers", flags.options.workers, "Source shards read at once; without it one per CPU")
      ->check(whole_number(1, 1024));
  command
      .add_option("--shard-bytes", flags.options.shard_bytes,
                  "Tensor bytes in an output shard, at most; a layer always begins a new one")
      ->check(whole_number(1, INT64_MAX))
      ->capture_default_str();
  command
      .add_option("--hold-bytes", flags.options.hold_bytes,
                  "Memory for gate or up projections whose partner lies in another shard; those further "
                  "apart are read twice")
      ->check(whole_number(0, INT64_MAX))
      ->capture_default_str();
  command.add_option("--source-revision", flags.options.source_revision,
                     "For the manifest; found in a hub download without it");
  command.add_option("--isa", flags.isa,
                     "portable, avx2 or avx512; without it the best there is (the output is the same)");
  command.add_flag("--resume", flags.options.resume, "Continue a conversion that was stopped");
  command.add_flag("--dry-run", flags.dry_run, "Print the plan and stop");
  command.add_flag("--json", flags.json, "Plan, progress and result as JSON lines on standard output");
}

}  // namespace

void add_quantize(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "quantize", "Convert a checkpoint to NVFP4, FP8 blocks or BF16, in bounded memory and resumable");
  const auto flags = std::make_shared<Flags>();
  add_flags(*command, *flags);
  command->callback([flags] { run(*flags); });
}

}  // namespace glint
