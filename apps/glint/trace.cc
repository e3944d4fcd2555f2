// glint trace: one prompt of token ids through the model, with everything between the layers written to a
// file.

#include "engine/trace.h"

#include <iostream>
#include <memory>

#include "base/error.h"
#include "commands.h"
#include "engine/device_choice.h"
#include "engine/flags.h"
#include "model_option.h"

namespace glint {

namespace {

struct Flags {
  ModelOption model;
  std::string ids, out, force;
  std::string dtype = "bfloat16";
  std::string kv_cache_dtype;
  std::string isa;
  std::string device = "cpu";
  bool bf16_activations = false;
  std::string keep = "all";
  int64_t chunk = 0;
  int threads = 0;
  bool mtp = false;
  bool layerwise = false;
};

int64_t parse_keep(const std::string& text) {
  if (text == "all") return 0;
  const bool digits =
      !text.empty() && text.size() <= 12 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoll(text) == 0) {
    fail(ErrorKind::bad_input, "--keep ", text, ": expected a number of rows from 1, or all");
  }
  return std::stoll(text);
}

void run(const Flags& flags) {
  TraceSettings options;
  options.dtype = parse_compute_dtype(flags.dtype);
  if (!flags.kv_cache_dtype.empty()) {
    options.kv_cache_dtype = parse_kv_cache_dtype(flags.kv_cache_dtype, options.dtype);
  }
  options.isa = flags.isa.empty() ? best_isa() : parse_isa(flags.isa);
  options.keep = parse_keep(flags.keep);
  options.chunk = flags.chunk;
  options.threads = flags.threads;
  options.mtp = flags.mtp;
  options.layerwise = flags.layerwise;
  if (!flags.force.empty()) options.force = flags.force;
  options.input_ids = read_input_ids(flags.ids);
  options.make_device = trace_devices(device_flag(flags.device), {.fp8_activations = !flags.bf16_activations});
  const auto checkpoint = Checkpoint::open(find_model(flags.model, ModelFiles::all).folder);
  const auto model = std::make_shared<const Model>(bind_weights(checkpoint), rules_of(checkpoint->config()));
  const TraceTensors tensors = run_trace(model, options);
  write_trace(flags.out, tensors);
  std::cout << flags.out << ": " << tensors.size() << " tensors of " << options.input_ids.size()
            << " tokens, " << flags.dtype << " on "
            << (options.make_device ? flags.device : std::string(isa_name(options.isa))) << "\n";
}

}  // namespace

void add_trace(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "trace", "Run token ids through the model and write what stands between the layers");
  const auto flags = std::make_shared<Flags>();
  command->add_option("MODEL", flags->model.name, kModelHelp)->required();
  add_model_options(*command, flags->model);
  command->add_option("--ids", flags->ids, "A safetensors file with an int32 tensor input_ids")->required();
  command->add_option("--out", flags->out, "The safetensors file to write")->required();
  command->add_option("--dtype", flags->dtype, "auto, bfloat16 or float32")->capture_default_str();
  command->add_option(
      "--kv-cache-dtype", flags->kv_cache_dtype,
      "The served cache: auto, bfloat16 or fp8; without it rows and index keys of the compute type");
  command->add_option("--keep", flags->keep, "Rows kept, counted from the end, or all")
      ->capture_default_str();
  command->add_option("--chunk", flags->chunk, "Rows of one step; without it all at once")
      ->check(whole_number(1, INT32_MAX));
  command->add_flag("--mtp", flags->mtp, "Also run the MTP layer and five greedy drafts");
  CLI::Option* const force = command->add_option(
      "--force", flags->force, "Use the index lists and experts of this trace of the same prompt");
  command
      ->add_flag("--layerwise", flags->layerwise,
                 "With --force: start every layer from that trace's hidden states")
      ->needs(force);
  command->add_option("--threads", flags->threads, "Threads; without it one per CPU")
      ->check(whole_number(1, 1024));
  command->add_option("--isa", flags->isa,
                      "portable, avx2, avx512 or avx512_bf16; without it the best there is");
  command->add_option("--device", flags->device, "cpu, cuda or cuda:N: what computes")->capture_default_str();
  command->add_flag(
      "--bf16-activations", flags->bf16_activations,
      "On a GPU: multiply FP8 weights with bfloat16 activations, as the CPU does, not with FP8 ones");
  command->callback([flags] { run(*flags); });
}

}  // namespace glint
