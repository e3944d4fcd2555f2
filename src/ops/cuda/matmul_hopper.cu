// Many rows of x on Hopper's own matrix instructions: which shape of the kernel (matmul_hopper.cuh) takes a
// product.
//
// The instruction adds FP8 products with fewer bits than float32 and in an order of its own: results differ
// in the last bits from the other kernels' (matmul.h), so a row's bits depend on which kernel its step took.
// That is why this kernel stays out of the batch-invariant mode. They do not depend on the shape.
#include <algorithm>

#include "base/integers.h"
#include "ops/cuda/check.h"
#include "ops/cuda/matmul_hopper.cuh"
#include "ops/cuda/tensor_map.h"

namespace glint::ops::cuda {

namespace {

using hopper::Bf16;
using hopper::Fp4;
using hopper::Fp8;
using hopper::Shape;

int multiprocessors = 0;

int64_t columns(const Matmul& p) {
  return p.out_cols == 0 ? p.weight.rows : p.out_cols;
}

/// Tiles of y, counted in those of a cluster.
template <class S>
int64_t cluster_tiles(const Matmul& p) {
  const int64_t row_units = ceil_div(row_tile_count<hopper::kTileX>(p), int64_t{S::kCluster});
  return row_units * ceil_div(columns(p), int64_t{S::kTileW}) * p.batch;
}

template <class S>
CUtensorMap map_of_x(const Matmul& p) {
  constexpr int64_t kElement = S::Form::kElement;
  return tensor_map({.data = p.x,
                     .row_bytes = p.weight.cols * kElement,
                     .rows = p.rows,
                     .row_stride = p.x_stride * kElement,
                     .slices = p.x_batch == 0 ? 1 : p.batch,
                     .slice_stride = p.x_batch * kElement},
                    hopper::kTileX);
}
template <class S>
CUtensorMap map_of_w(const Matmul& p) {
  const int64_t row_bytes = p.weight.cols * S::Form::kElement;
  MatrixStack stack{
      .data = p.weight.data, .row_bytes = row_bytes, .rows = p.weight.rows, .row_stride = row_bytes};
  if (p.table != nullptr) {
    stack.slices = p.batch;
    stack.slice_stride = p.table_places.slice_bytes;
    stack.blocks = p.table_places.count;
    stack.block_stride = p.table_places.bytes;
  }
  return tensor_map(stack, S::kTileW / S::kCluster);
}

template <class S>
void launch(const Matmul& p, cudaStream_t stream) {
  const CUtensorMap x_map = S::kGathers ? CUtensorMap{} : map_of_x<S>(p);
  const CUtensorMap w_map = S::kWidens ? CUtensorMap{} : map_of_w<S>(p);
  const int64_t clusters = std::min<int64_t>(cluster_tiles<S>(p), multiprocessors / S::kCluster);
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {S::kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * S::kCluster));
  config.blockDim = dim3(S::kThreads);
  config.dynamicSmemBytes = S::kSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, hopper::hopper_kernel<S>, p, x_map, w_map), "launching multiply_hopper");
}

template <class... S>
void prepare() {
  (check(cudaFuncSetAttribute(hopper::hopper_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              S::kSharedBytes),
         "raising a kernel's shared memory"),
   ...);
}
template <class Form>
void prepare_form() {
  prepare<Shape<Form, 128, 1, true>, Shape<Form, 256, 1, true>, Shape<Form, 128, 1, false>,
          Shape<Form, 256, 1, false>>();
  if constexpr (!Form::kWidens) prepare<Shape<Form, 256, 2, false>>();
}

/// Whether tiles of 256 rows of W take fewer or shorter waves than those of 128: a step of one takes 1.7
/// times as long as one of the other.
template <class Form>
bool wide_is_faster(const Matmul& p) {
  const int64_t wide = ceil_div(cluster_tiles<Shape<Form, 256, 1, false>>(p), multiprocessors);
  const int64_t narrow = ceil_div(cluster_tiles<Shape<Form, 128, 1, false>>(p), multiprocessors);
  return wide * 17 <= narrow * 10;
}

template <class Form>
void launch_form(const Matmul& p, cudaStream_t stream) {
  const bool wide = wide_is_faster<Form>(p);
  if (p.x_rows != nullptr) {
    if (wide) {
      launch<Shape<Form, 256, 1, true>>(p, stream);
    } else {
      launch<Shape<Form, 128, 1, true>>(p, stream);
    }
    return;
  }
  if constexpr (!Form::kWidens) {
    const int64_t row_tiles = row_tile_count<hopper::kTileX>(p);
    if (wide && p.table == nullptr && (row_tiles % 2 == 0 || row_tiles > 8)) {
      launch<Shape<Form, 256, 2, false>>(p, stream);
      return;
    }
  }
  if (wide) {
    launch<Shape<Form, 256, 1, false>>(p, stream);
  } else {
    launch<Shape<Form, 128, 1, false>>(p, stream);
  }
}

}  // namespace

void prepare_hopper() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "asking for the device");
  prepare_tensor_maps();
  prepare_form<Fp8>();
  prepare_form<Bf16>();
  prepare_form<Fp4>();
}

bool has_hopper_form(const Matmul& p) {
  if (!has_tensor_core_form(p)) return false;
  return p.weight.format == WeightFormat::nvfp4 || p.table == nullptr || p.table_places.count > 0;
}

void multiply_hopper(const Matmul& p, cudaStream_t stream) {
  if (p.rows == 0) return;
  switch (p.weight.format) {
    case WeightFormat::fp8_block:
      launch_form<Fp8>(p, stream);
      break;
    case WeightFormat::bf16:
      launch_form<Bf16>(p, stream);
      break;
    default:
      launch_form<Fp4>(p, stream);
      break;
  }
}

}  // namespace glint::ops::cuda
