// glint verify-checkpoint: is a checkpoint whole, legal, and what its source makes it?

#include <cstdio>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/report.h"
#include "commands.h"
#include "model_option.h"
#include "quantize/verify.h"

namespace glint {

namespace {

struct Flags {
  ModelOption model;
  std::string against;
  int workers = 0;
  int worst = 10;
  bool json = false;
};

OrderedJson json_of(const quantize::VerifyReport& report) {
  OrderedJson compared = OrderedJson::array();
  for (const quantize::TensorComparison& each : report.compared) {
    compared.push_back({{"tensor", each.tensor},
                        {"relative_rmse", each.relative_rmse},
                        {"snr_db", each.snr_db},
                        {"cosine", each.cosine},
                        {"largest_error", each.largest_error}});
  }
  return {{"faults", report.faults},
          {"warnings", report.warnings},
          {"tensors", report.tensors},
          {"files_hashed", report.files_hashed},
          {"copied_equal", report.copied_equal},
          {"recoded_equal", report.recoded_equal},
          {"compared", std::move(compared)}};
}

void print(const Flags& flags, const quantize::VerifyReport& report) {
  for (const std::string& fault : report.faults) std::cout << "fault: " << fault << "\n";
  for (const std::string& warning : report.warnings) std::cout << "note: " << warning << "\n";
  std::cout << flags.model.name << ": " << grouped_digits(report.tensors) << " tensors, "
            << report.files_hashed << " files hashed, " << report.faults.size() << " faults\n";
  if (flags.against.empty()) return;
  std::cout << "against " << flags.against << ": " << grouped_digits(report.copied_equal)
            << " tensors copied, " << grouped_digits(report.recoded_equal) << " of "
            << grouped_digits(static_cast<int64_t>(report.compared.size()))
            << " converted ones equal to the definition's bytes; the worst:\n";
  std::printf("%12s %9s %10s %13s  tensor\n", "rel. RMSE", "SNR dB", "cosine", "largest error");
  const size_t count = std::min(report.compared.size(), static_cast<size_t>(flags.worst));
  for (size_t i = 0; i < count; ++i) {
    const quantize::TensorComparison& each = report.compared[i];
    std::printf("%12.5f %9.2f %10.7f %13.5g  %s\n", each.relative_rmse, each.snr_db, each.cosine,
                each.largest_error, each.tensor.c_str());
  }
}

void run(const Flags& flags) {
  quantize::VerifyOptions options;
  options.folder = find_model(flags.model, ModelFiles::all).folder;
  options.against = flags.against;
  options.workers = flags.workers;
  Progress bar("Verifying " + flags.model.name);
  int64_t last_total = 0;
  options.progress = [&](int64_t done, int64_t total) {
    last_total = total;
    bar.update(done, total);
  };
  const quantize::VerifyReport report = quantize::verify_checkpoint(options);
  bar.finish(last_total);
  if (flags.json) {
    std::cout << dump_json(json_of(report)) << "\n";
  } else {
    print(flags, report);
  }
  std::cout.flush();
  if (!report.faults.empty()) {
    fail(ErrorKind::bad_input, flags.model.name, ": ", report.faults.size(),
         " faults, the first: ", report.faults[0]);
  }
}

}  // namespace

void add_verify_checkpoint(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "verify-checkpoint",
      "Check a checkpoint: structure, configs, scales, hashes, and the weights against a source");
  const auto flags = std::make_shared<Flags>();
  command->add_option("MODEL", flags->model.name, "The checkpoint to check: a folder, or ORG/NAME of a hub")
      ->required();
  add_model_options(*command, flags->model);
  command->add_option("--against", flags->against,
                      "The checkpoint that it was converted from: codes it again and lists the worst errors");
  command->add_option("--workers", flags->workers, "Threads; without it one per CPU")
      ->check(whole_number(1, 1024));
  command->add_option("--worst", flags->worst, "How many of the worst tensors to list")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "The whole report as one JSON object on standard output");
  command->callback([flags] { run(*flags); });
}

}  // namespace glint
