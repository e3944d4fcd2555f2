// glint verify: measures what a model's card claims, on this machine, and says PASS or FAIL.

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "bench/verify_model.h"
#include "checkpoint/bundled_model.h"
#include "commands.h"
#include "engine/device_choice.h"
#include "engine/flags.h"

namespace glint {

namespace {

struct Flags {
  std::string model = "nano";
  std::string data;
  std::string claims;
  std::string dtype = "bfloat16";
  std::string isa;
  std::string device = "cpu";
  int threads = 0;
  int64_t examples = 0;
  int64_t greedy = 0;
  bool full = false;
  bool json = false;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Of all threads, the system's part included.
double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// A line on a terminal's standard error that the next one replaces; elsewhere a line every five seconds.
class StatusLine {
 public:
  void show(const std::string& text) {
    if (!terminal_) {
      if (seconds_since(printed_) < 5) return;
      printed_ = Clock::now();
      std::fprintf(stderr, "%s\n", text.c_str());
      return;
    }
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    std::fflush(stderr);
    shown_ = true;
  }
  void clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  Clock::time_point printed_ = Clock::now();
  bool shown_ = false;
};

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream in(text);
  for (std::string name; std::getline(in, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

OrderedJson json_of(const bench::ClaimResult& r) {
  return {{"claim", r.name},
          {"passed", r.passed},
          {"measured", r.measured},
          {"wanted", r.wanted},
          {"detail", r.detail}};
}

/// The model's own `verify` folder, else that of nano: a converted nano is measured by the same examples.
std::filesystem::path data_folder(const Flags& flags, const std::filesystem::path& model) {
  if (!flags.data.empty()) return flags.data;
  if (std::filesystem::exists(model / "verify/claims.jsonl")) return model / "verify";
  if (const auto nano = find_bundled_model("nano")) return *nano / "verify";
  fail(ErrorKind::not_found, model.string(), " has no verify/claims.jsonl; --data names a folder with one");
}

void run(const Flags& flags) {
  set_log_level(LogLevel::error);
  bench::VerifyOptions options;
  options.folder = folder_or_bundled_model(flags.model);
  options.data = data_folder(flags, options.folder);
  options.claims = split_names(flags.claims);
  options.runner.dtype = parse_compute_dtype(flags.dtype);
  options.runner.threads = flags.threads;
  options.runner.device = device_flag(flags.device);
  if (!flags.isa.empty()) options.runner.isa = parse_isa(flags.isa);
  options.full = flags.full;
  options.examples_max = flags.examples;
  options.greedy_count = flags.greedy;

  StatusLine status;
  const auto begin = Clock::now();
  bench::VerifyHooks hooks;
  hooks.progress = [&](const std::string& what, size_t done, size_t total) {
    status.show(cat(what, ": ", done, " of ", total, ", ", static_cast<int64_t>(seconds_since(begin)), " s"));
  };
  hooks.result = [&](const bench::ClaimResult& r) {
    status.clear();
    if (flags.json) return;
    std::printf("%s  %-11s  %10s  %-9s  %s\n", r.passed ? "PASS" : "FAIL", r.name.c_str(),
                r.measured_text.c_str(), r.wanted_text.c_str(), r.detail.c_str());
    std::fflush(stdout);
  };
  const auto results = bench::verify_model(options, hooks);
  status.clear();
  const double seconds = seconds_since(begin);
  size_t passed = 0;
  OrderedJson lines = OrderedJson::array();
  for (const auto& result : results) {
    passed += result.passed ? 1 : 0;
    lines.push_back(json_of(result));
  }
  if (flags.json) {
    std::cout << OrderedJson{{"model", options.folder.string()},
                             {"dtype", flags.dtype},
                             {"device", flags.device},
                             {"passed", passed},
                             {"full", flags.full},
                             {"claims", results.size()},
                             {"seconds", seconds},
                             {"cpu_seconds", cpu_seconds()},
                             {"results", lines}}
                     .dump(2)
              << "\n";
  } else {
    std::printf("%zu of %zu claims hold (%s, %s, %s, %.1f s, %.1f s of CPU time)\n", passed, results.size(),
                options.folder.c_str(), flags.device.c_str(), flags.dtype.c_str(), seconds, cpu_seconds());
  }
  if (passed < results.size()) throw CLI::RuntimeError(1);
}

}  // namespace

void add_verify(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("verify",
                                                   "Measure what the small model's card claims, on this "
                                                   "machine: PASS or FAIL a claim, exit status 0 or 1");
  const auto flags = std::make_shared<Flags>();
  command->add_option("MODEL", flags->model, "nano, or the folder of one of its conversions")
      ->capture_default_str();
  std::string names;
  for (const std::string& name : bench::claim_names()) names += (names.empty() ? "" : ", ") + name;
  command->add_option("--claims", flags->claims, cat("Only these, with commas between them: ", names));
  command->add_option("--dtype", flags->dtype, "The compute type of the answers: bfloat16 or float32")
      ->capture_default_str();
  command
      ->add_option("--device", flags->device,
                   "cpu, cuda or cuda:N: what answers; the claims in float32 are computed on the CPU")
      ->capture_default_str();
  command
      ->add_option("--examples", flags->examples,
                   "At most so many examples of each claim; without it all there are")
      ->check(whole_number(1, 1'000'000));
  command
      ->add_option(
          "--greedy-texts", flags->greedy,
          "At most so many texts of the claims greedy, logits and drafts; without it 60 of greedy's 200")
      ->check(whole_number(1, 1'000'000));
  command->add_flag("--full", flags->full,
                    "All 200 texts of greedy and all examples of forms, not the part that fits a minute");
  command->add_option(
      "--data", flags->data,
      "Folder with claims.jsonl, greedy.jsonl and reference.jsonl; without it the model's own");
  command->add_option("--threads", flags->threads, "Threads; without it one per CPU")
      ->check(whole_number(1, 1024));
  command->add_option("--isa", flags->isa,
                      "portable, avx2, avx512 or avx512_bf16; without it the best there is");
  command->add_flag("--json", flags->json, "The results as JSON");
  command->callback([flags] { run(*flags); });
}

}  // namespace glint
