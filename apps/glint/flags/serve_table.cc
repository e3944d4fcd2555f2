#include "flags/groups.h"

namespace glint {

namespace {

std::string about(std::string_view form) {
  if (form == kPlan) {
    return "Show what serving a model would take of every device, from its config.json alone.";
  }
  return "Serve a checkpoint over HTTP, as OpenAI's API. vLLM's and SGLang's names of flags both work.";
}

}  // namespace

FlagTable serve_table(std::string_view form, ServeFlags& flags) {
  flags.form = form;
  FlagTable table("glint", flags.form, about(form), "model");
  add_model_flags(table, flags);
  add_memory_flags(table, flags);
  add_parallel_flags(table, flags);
  add_speculation_flags(table, flags);
  add_kernel_flags(table, flags);
  add_api_flags(table, flags);
  add_http_flags(table, flags);
  add_operations_flags(table, flags);
  add_transport_flags(table, flags);
  add_foreign_flags(table);
  table.note_environment("VLLM_*, SGLANG_*, LMCACHE_*, DYN_*",
                         "Others than those named above: one line says that they have no effect");
  table.note_environment("RANK, LOCAL_RANK, WORLD_SIZE",
                         "Of torchrun: refused where they say that several processes were started");
  table.note_environment("CUDA_VISIBLE_DEVICES", "Which GPUs --device cuda:N counts from");
  table.note_environment("COLUMNS", "The width of --help");
  return table;
}

}  // namespace glint
