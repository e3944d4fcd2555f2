// glint bench quantize: NVFP4 coding and a whole conversion beside their limits.

#include <iostream>
#include <memory>

#include "bench/quantize_bench.h"
#include "commands.h"

namespace glint {

namespace {

struct QuantizeFlags {
  std::string config = "bench/quantize-config.json";
  std::string folder = "build/bench-models";
  std::string isa;
  std::string json;
  int workers = 0;
  int rounds = 3;
  bool coding = false;
};

void run_quantize(const QuantizeFlags& flags) {
  bench::QuantizeBenchOptions options;
  options.isa = flags.isa.empty() ? best_isa() : parse_isa(flags.isa);
  options.workers = flags.workers;
  options.rounds = flags.rounds;
  options.config = flags.config;
  options.folder = flags.folder;
  bench::Report report(std::cout);
  report.note("instruction set", isa_name(options.isa));
  bench::bench_coding(options, report);
  if (!flags.coding) bench::bench_conversion(options, report);
  if (!flags.json.empty()) report.write_json(flags.json);
}

}  // namespace

void add_bench_quantize(CLI::App& group) {
  CLI::App* const command = group.add_subcommand(
      "quantize",
      "NVFP4 coding of one core beside a copy, and a conversion of 4 GB beside plain reading and writing");
  const auto flags = std::make_shared<QuantizeFlags>();
  command->add_flag("--coding", flags->coding, "Measure the coder alone");
  command->add_option("--workers", flags->workers, "Of the conversion; without it one per CPU")
      ->check(whole_number(1, 1024));
  command->add_option("--rounds", flags->rounds, "Repetitions; medians are shown")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_option("--isa", flags->isa, "portable, avx2 or avx512; without it the best there is");
  command->add_option("--config", flags->config, "The stand-in's config.json")->capture_default_str();
  command
      ->add_option("--dir", flags->folder,
                   "Keeps the stand-in between runs; the output goes there for a while")
      ->capture_default_str();
  command->add_option("--json", flags->json, "Also write the figures to this file");
  command->callback([flags] { run_quantize(*flags); });
}

}  // namespace glint
