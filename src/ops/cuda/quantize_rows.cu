#include <cfloat>

#include "ops/cuda/device_math.cuh"
#include "ops/cuda/overlap.cuh"
#include "ops/cuda/quantize_rows.h"

namespace glint::ops::cuda {

namespace {

constexpr int kGroupsPerBlock = 8;  // a warp each
constexpr int kThreads = kGroupsPerBlock * 32;
constexpr int kPerLane = 4;

struct PlainSource {
  const __nv_bfloat16* x;
  int64_t stride;
  __device__ float operator()(int64_t row, int64_t col) const { return load_value(x + row * stride + col); }
};

struct SwigluSource {
  const __nv_bfloat16* gate;
  const __nv_bfloat16* up;
  int64_t gate_stride, up_stride;
  __device__ float operator()(int64_t row, int64_t col) const {
    const float g = load_value(gate + row * gate_stride + col);
    const float u = load_value(up + row * up_stride + col);
    return __bfloat162float(__float2bfloat16_rn(g / (1.0F + expf(-g)) * u));
  }
};

template <class Source>
__global__ void quantize_kernel(Source source, QuantizedRows out) {
  let_next_start();  // a product reads its first weights meanwhile
  wait_for_earlier();
  const int64_t row = blockIdx.x;
  const int64_t group = static_cast<int64_t>(blockIdx.y) * kGroupsPerBlock + threadIdx.x / 32;
  if (group >= out.scale_stride) return;
  const int64_t first = group * kScaleBlock + threadIdx.x % 32 * kPerLane;
  float values[kPerLane];
  float largest = 0;
  for (int i = 0; i < kPerLane; ++i) {
    values[i] = first + i < out.cols ? source(row, first + i) : 0.0F;
    largest = fmaxf(largest, fabsf(values[i]));
  }
  const float scale = fmaxf(__fdiv_rn(warp_max(largest), kE4m3Max), FLT_MIN);
  for (int i = 0; i < kPerLane; ++i) values[i] = __fdiv_rn(values[i], scale);
  const uint32_t codes =
      e4m3_pair(values[0], values[1]) | static_cast<uint32_t>(e4m3_pair(values[2], values[3])) << 16;
  // The stride's padding up to 16 bytes is written too, as zeros.
  if (first + kPerLane <= out.stride) {
    *reinterpret_cast<uint32_t*>(out.codes + row * out.stride + first) = codes;
  }
  if (threadIdx.x % 32 == 0) out.scales[row * out.scale_stride + group] = scale;
}

template <class Source>
void launch(const Source& source, const QuantizedRows& out, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(out.rows),
                  static_cast<unsigned>((out.scale_stride + kGroupsPerBlock - 1) / kGroupsPerBlock));
  launch_early(quantize_kernel<Source>, grid, kThreads, 0, stream, "launching quantize_rows", source, out);
}

}  // namespace

void quantize_rows(Activation x, const QuantizedRows& out, cudaStream_t stream) {
  launch(PlainSource{static_cast<const __nv_bfloat16*>(x.data), x.stride}, out, stream);
}

void swiglu_quantize_rows(Activation gate, Activation up, const QuantizedRows& out, cudaStream_t stream) {
  launch(SwigluSource{static_cast<const __nv_bfloat16*>(gate.data),
                      static_cast<const __nv_bfloat16*>(up.data), gate.stride, up.stride},
         out, stream);
}

}  // namespace glint::ops::cuda
