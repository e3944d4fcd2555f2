// Names of kernel families of other engines: accepted where they mean something for this model, answered by
// this program's own kernels.
#include "flags/groups.h"
#include "flags/kernel_names.h"

namespace glint {

namespace {

constexpr const char* kOwn = "Accepted for scripts; the kernels are this program's own, and the log says so";

}  // namespace

void add_kernel_flags(FlagTable& table, ServeFlags& to) {
  table.group("Kernels", {"KernelConfig"});
  table.add(value_flag("device", to.device, ReadBy<DeviceChoice>{parse_device, {"cpu", "cuda"}, "cpu"})
                .metavar("DEVICE")
                .help("What computes: cpu, cuda or cuda:N (docs/gpu.md)"));
  table.add(
      toggle_flag("enforce-eager", to.enforce_eager)
          .alias("disable-cuda-graph")
          .help("On a GPU: launch every step's kernels one by one instead of replaying captured steps"));
  table.add(toggle_flag("enable-deterministic-inference", to.engine.cuda.batch_invariant)
                .alias("batch-invariant")
                .env("VLLM_BATCH_INVARIANT")
                .help("On a GPU: no answer's bits depend on what runs beside it; on the CPU none ever do"));
  table.add(value_flag("linear-backend", to.linear_backend, linear_backends()).metavar("NAME").help(kOwn));
  table.add(value_flag("moe-backend", to.moe_backend, moe_backends())
                .metavar("NAME")
                .alias("moe-runner-backend")
                .help(kOwn));
  table.add(no_effect_flag("fp4-gemm-backend", FlagKind::value,
                           "only routed experts are FP4 in checkpoints of this model: --moe-backend",
                           {"auto", "flashinfer_cutlass", "flashinfer_cudnn", "flashinfer_trtllm", "cutlass"})
                .alias("fp4-gemm-runner-backend"));
  table.add(
      value_flag("attention-backend", to.attention_backend, attention_backends()).metavar("NAME").help(kOwn));
  table.add(value_flag("dsa-prefill-backend", to.dsa_prefill_backend, dsa_backends())
                .metavar("NAME")
                .alias("nsa-prefill-backend")
                .help(kOwn));
  table.add(value_flag("dsa-decode-backend", to.dsa_decode_backend, dsa_backends())
                .metavar("NAME")
                .alias("nsa-decode-backend")
                .help(kOwn));
}

}  // namespace glint
