#include "flags/kernel_names.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace glint {

namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list.append(list.empty() ? "" : ", ").append(name);
  return list;
}

}  // namespace

std::string BackendName::operator()(std::string_view text) const {
  std::string seen(text);
  for (char& c : seen) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (std::find(names.begin(), names.end(), seen) != names.end()) return seen;
  if (std::find(amd.begin(), amd.end(), seen) != amd.end()) {
    fail(ErrorKind::unsupported, kind, " backend '", text,
         "' needs an AMD GPU; this build supports: ", listed(names));
  }
  refuse_choice(text, names);
}

BackendName linear_backends() {
  return {"linear",
          {"auto", "cutlass", "flashinfer_cutlass", "flashinfer_cutedsl", "flashinfer_trtllm",
           "flashinfer_cudnn", "flashinfer_b12x", "b12x", "marlin", "triton", "deep_gemm", "torch", "machete",
           "fbgemm", "conch", "exllama", "emulation"}};
}

BackendName moe_backends() {
  return {
      "moe",
      {"auto", "triton", "triton_kernel", "deep_gemm", "cutlass", "flashinfer_trtllm", "flashinfer_cutlass",
       "flashinfer_cutedsl", "flashinfer_b12x", "flashinfer_mxfp4", "marlin", "emulation"}};
}

BackendName attention_backends() {
  return {"attention",
          {"auto", "flashinfer", "flashinfer_mla", "flashinfer_mla_sparse", "dsa", "nsa", "flashmla",
           "flashmla_sparse", "flashmla_kv", "flashmla_auto", "trtllm", "trtllm_mla"},
          {"aiter", "rocm_aiter_mla", "rocm_aiter_mla_sparse", "wave"}};
}

BackendName dsa_backends() {
  return {"dsa", {"auto", "flashmla_sparse", "flashmla_kv", "flashmla_auto", "fa3", "tilelang", "trtllm"}};
}

void check_kernel_names(const ServeFlags& flags, CheckpointFormat format) {
  const std::string& name = flags.moe_backend;
  const auto refuse = [&](std::string_view wants) {
    fail(ErrorKind::bad_input, "argument --moe-backend: ", name, " is for ", wants, ", this checkpoint is ",
         format_name(format), ": drop the flag or choose auto");
  };
  if (name == "deep_gemm" && format != CheckpointFormat::fp8) refuse("experts in FP8 blocks");
  if (name == "flashinfer_cutedsl" && format != CheckpointFormat::nvfp4) refuse("NVFP4 experts");
  if (name == "flashinfer_mxfp4") refuse("MXFP4 experts");
  if (name == "marlin" && format == CheckpointFormat::bf16) refuse("quantised experts");
}

std::vector<std::string> kernel_notes(const ServeFlags& flags, std::string_view device) {
  std::vector<std::string> notes;
  const auto note = [&](std::string_view flag, const std::string& name, std::string_view own) {
    if (!name.empty() && name != "auto")
      notes.push_back(cat(flag, " ", name, " -> native ", own, " (", device, ")"));
  };
  note("linear-backend", flags.linear_backend, "kernels");
  note("moe-backend", flags.moe_backend, "kernels");
  note("attention-backend", flags.attention_backend, "DSA");
  note("dsa-prefill-backend", flags.dsa_prefill_backend, "DSA");
  note("dsa-decode-backend", flags.dsa_decode_backend, "DSA");
  return notes;
}

}  // namespace glint
