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
  table.note_environment("VLLM_ROCM_USE_AITER, VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS",
                         "Kernels of AMD GPUs: noticed, without effect");
  table.note_environment("VLLM_BATCH_INVARIANT", "Always so: no answer depends on what runs beside it");
  table.note_environment("COLUMNS", "The width of --help");
  return table;
}

}  // namespace glint
