// glint bench cpu, disk: speed beside the limits of this machine. glint bench server: what the server itself
// costs.

#include <iostream>
#include <memory>

#include "base/threads.h"
#include "bench/disk_bench.h"
#include "bench/kernel_bench.h"
#include "bench/model_bench.h"
#include "bench/server_bench.h"
#include "commands.h"

namespace glint {

namespace {

struct Flags {
  std::string config = "bench/cpu-config.json";
  std::string folder = "build/bench-models";
  std::string isa;
  std::string json;
  int threads = 0;
  bool quick = false;
  bool kernels = false;
};

void run(const Flags& flags) {
  const Isa isa = flags.isa.empty() ? best_isa() : parse_isa(flags.isa);
  const int threads = ThreadPool(flags.threads).size();
  bench::Report report(std::cout);
  report.note("instruction set", isa_name(isa));
  report.note("threads", threads);
  if (flags.kernels) {
    bench::bench_kernels({.isa = isa, .threads = threads, .quick = flags.quick}, report);
  } else {
    bench::bench_model({.isa = isa,
                        .threads = threads,
                        .config = flags.config,
                        .folder = flags.folder,
                        .quick = flags.quick},
                       report);
  }
  if (!flags.json.empty()) report.write_json(flags.json);
}

struct ServerFlags {
  bench::ServerBenchOptions options;
  std::string json;
};

void run_server_bench(const ServerFlags& flags) {
  bench::Report report(std::cout);
  bench::bench_server(flags.options, report);
  if (!flags.json.empty()) report.write_json(flags.json);
}

void add_server_bench(CLI::App& group) {
  CLI::App* const command = group.add_subcommand(
      "server", "The server's own cost with a device of a fixed step time: streams, prefix hits, wake-up");
  const auto flags = std::make_shared<ServerFlags>();
  command->add_option("--streams", flags->options.streams, "Streams at once")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  command->add_option("--tokens", flags->options.tokens, "Tokens of each stream")
      ->check(whole_number(2, 100'000))
      ->capture_default_str();
  command->add_option("--step-ms", flags->options.step_ms, "Time of the device's steps")
      ->check(whole_number(1, 10'000))
      ->capture_default_str();
  command->add_flag("--quick", flags->options.quick, "Shorter and rougher");
  command->add_option("--json", flags->json, "Also write the figures to this file");
  command->callback([flags] { run_server_bench(*flags); });
}

void add_bench_disk(CLI::App& group) {
  struct DiskFlags {
    std::string folder;
    int64_t pages = 64;
    int64_t page_bytes = bench::DiskBenchOptions().page_bytes;
    int rounds = 5;
    std::string json;
  };
  CLI::App* const command =
      group.add_subcommand("disk", "The disk tier beside a plain copy of the same bytes");
  const auto flags = std::make_shared<DiskFlags>();
  command
      ->add_option("--dir", flags->folder,
                   "On the device in question; its \"plain\" and \"tier\" are replaced")
      ->required();
  command->add_option("--pages", flags->pages, "Pages of one run")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--page-bytes", flags->page_bytes, "Of one page, a multiple of 64")
      ->check(whole_number(64, 1 << 30))
      ->capture_default_str();
  command->add_option("--rounds", flags->rounds, "Runs of each kind; the medians are shown")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_option("--json", flags->json, "Also write the figures to this file");
  command->callback([flags] {
    bench::Report report(std::cout);
    report.note("page bytes", flags->page_bytes);
    report.note("pages", flags->pages);
    bench::bench_disk({.folder = flags->folder,
                       .pages = flags->pages,
                       .page_bytes = flags->page_bytes / 64 * 64,
                       .rounds = flags->rounds},
                      report);
    if (!flags->json.empty()) report.write_json(flags->json);
  });
}

}  // namespace

void add_bench(CLI::App& program) {
  CLI::App* const group = program.add_subcommand("bench", "Measure speed");
  group->require_subcommand(1);
  add_bench_disk(*group);
  CLI::App* const command = group->add_subcommand(
      "cpu", "Loading, prefill and decode of a model of about 1 GB, beside this machine's limits");
  const auto flags = std::make_shared<Flags>();
  command->add_flag("--kernels", flags->kernels, "Measure the inner loops alone");
  command->add_flag("--quick", flags->quick, "Shorter and rougher");
  command->add_option("--threads", flags->threads, "Threads; without it one per CPU")
      ->check(whole_number(1, 1024));
  command->add_option("--isa", flags->isa,
                      "portable, avx2, avx512 or avx512_bf16; without it the best there is");
  command->add_option("--config", flags->config, "The stand-in's config.json")->capture_default_str();
  command->add_option("--dir", flags->folder, "Keeps the stand-in checkpoints between runs")
      ->capture_default_str();
  command->add_option("--json", flags->json, "Also write the figures to this file");
  command->callback([flags] { run(*flags); });
  add_server_bench(*group);
  add_bench_quantize(*group);
}

}  // namespace glint
