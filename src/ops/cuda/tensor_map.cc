#include "ops/cuda/tensor_map.h"

#include "ops/cuda/check.h"

namespace glint::ops::cuda {

namespace {
using Encode = decltype(&cuTensorMapEncodeTiled);
Encode encode = nullptr;
}  // namespace

void prepare_tensor_maps() {
  // Asked for at run time: a program that is linked with the driver does not start without one.
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
        "looking for cuTensorMapEncodeTiled");
  if (result != cudaDriverEntryPointSuccess)
    fail(ErrorKind::internal, "the driver has no cuTensorMapEncodeTiled");
  encode = reinterpret_cast<Encode>(found);
}

CUtensorMap tensor_map(const MatrixStack& stack, int tile_rows) {
  // A dimension of one still wants a stride that is a multiple of 16.
  const auto stride = [&](int64_t count, int64_t bytes) {
    return static_cast<cuuint64_t>(count == 1 ? stack.row_stride : bytes);
  };
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(stack.row_bytes), static_cast<cuuint64_t>(stack.rows),
                              static_cast<cuuint64_t>(stack.slices), static_cast<cuuint64_t>(stack.blocks)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stack.row_stride),
                                stride(stack.slices, stack.slice_stride),
                                stride(stack.blocks, stack.block_stride)};
  const cuuint32_t box[] = {128, static_cast<cuuint32_t>(tile_rows), 1, 1};
  const cuuint32_t every[] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, const_cast<void*>(stack.data), sizes, strides, box,
             every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail(ErrorKind::internal, "CUDA: making a tensor map: status ", static_cast<int>(status));
  return map;
}

}  // namespace glint::ops::cuda
