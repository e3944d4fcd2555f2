// The kernel families that other engines name, which of them make sense for a checkpoint, and what is used.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/plan.h"
#include "flags/serve_flags.h"

namespace glint {

/// Reads one of `names`, case folded and '-' as '_'. Families of AMD GPUs are refused with the list.
struct BackendName {
  std::string kind;  // "linear"
  std::vector<std::string> names;
  std::vector<std::string> amd = {"aiter"};
  std::string operator()(std::string_view text) const;
};

BackendName linear_backends();
BackendName moe_backends();
BackendName attention_backends();
BackendName dsa_backends();

/// Throws bad_input if the named MoE family cannot read the experts of `format`: deep_gemm is for FP8 in
/// blocks, flashinfer_cutedsl for NVFP4, marlin for quantised weights.
void check_kernel_names(const ServeFlags& flags, CheckpointFormat format);

/// One line for each family that was named, "moe-backend flashinfer_cutlass -> native kernels (CPU)".
std::vector<std::string> kernel_notes(const ServeFlags& flags, std::string_view device);

}  // namespace glint
