// Products with weight matrices on the device, dense, batched by head, or grouped by expert.
//
// One order of additions for all kernels of the tensor cores: the sum over each 128 columns starts from zero
// (in the instruction's own order over fixed fours of 16 columns), and those sums are added in ascending
// order with one fused multiply-add each (times both scales for FP8, times 1 otherwise). So a result does not
// depend on the number of rows, on the kernel, or on the tile that a row falls into. Only the Hopper kernel
// has another.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/types.h"
#include "tensor/weight.h"

namespace glint::ops::cuda {

/// How x is held.
enum class InputFormat { float32, bfloat16, fp8 };

/// The rows of a grouped product: tile i of the tiles_used is rows [first[i], first[i] + count[i]) of the
/// output, with matrix expert[i]. All on the device.
struct RowTiles {
  const int32_t* used = nullptr;  // one number; null: not grouped
  const int32_t* expert = nullptr;
  const int32_t* first = nullptr;
  const int32_t* count = nullptr;
  int64_t tiles_max = 0;  // launched
  int64_t tile_rows = 0;  // no tile has more
  bool settled =
      false;  // another product has taken them before: they can be read before the kernel before ends
};

/// The places of a grouped product's matrices where all distances are the same: matrix (e, z) stands e *
/// bytes
/// + z * slice_bytes behind weight.data.
struct TablePlaces {
  int64_t count = 0;  // matrices along e; 0: they stand anywhere
  int64_t bytes = 0, slice_bytes = 0;
};

struct Matmul {
  InputFormat input = InputFormat::bfloat16;
  const void* x = nullptr;
  int64_t x_stride = 0;             // elements
  const float* x_scales = nullptr;  // fp8: [rows][x_scale_stride]
  int64_t x_scale_stride = 0;
  const int32_t* x_rows = nullptr;  // row of x for each row of y; null: the same
  int64_t rows = 0;                 // of y; in a grouped product the most there can be

  Weight weight;                  // its format and sizes count in a grouped product too
  const Weight* table = nullptr;  // grouped: on the device, matrix e at table[e * table_stride + z]
  int64_t table_stride = 0;
  TablePlaces table_places;
  RowTiles tiles;

  bool y_is_float = false;  // else the compute type of x: bfloat16 for bfloat16 and fp8, float32 for float32
  void* y = nullptr;
  int64_t y_stride = 0;

  // z = 0 .. batch - 1: x, the rows of the weight and y move on by so many elements, rows and elements.
  int64_t batch = 1;
  int64_t x_batch = 0, w_batch_rows = 0, y_batch = 0;
  int64_t out_cols = 0;  // columns of y (rows of the weight taken) of each z; 0: weight.rows

  bool batch_invariant = false;  // one order of additions whatever the number of rows (no Hopper kernel)
};

/// Whether the tensor-core kernels take this product (bfloat16 input with bf16 or nvfp4 weights, fp8 input
/// with fp8_block weights, rows of whole 16 bytes); if not, multiply() takes the plain kernel, which has its
/// own order: k ascending, one fused multiply-add each (in float64 for float32 input: it is the reference).
bool has_tensor_core_form(const Matmul& product);

/// y = x W^T on `stream`. Weights (and `table`) may be read before earlier work on the stream has ended, so
/// whoever writes them waits for that.
void multiply(const Matmul& product, cudaStream_t stream);

// The kernels behind it.
void multiply_plain(const Matmul& product, cudaStream_t stream);
inline constexpr int64_t kSkinnyRowsMax = 32;
void multiply_skinny(const Matmul& product, cudaStream_t stream);
void multiply_tiled(const Matmul& product, cudaStream_t stream);

/// For a GPU of compute capability 9.0 alone; has an order of its own (matmul_hopper.cu). Takes what the
/// tensor-core kernels take, but grouped bf16 and fp8_block matrices only with their table_places.
bool has_hopper_form(const Matmul& product);
void multiply_hopper(const Matmul& product, cudaStream_t stream);
/// Whether multiply() takes it for many rows of this form: the device has it and invariance is not asked.
bool takes_hopper_form(const Matmul& product);

/// Raises the kernels' shared-memory limits; once per device, before anything is captured.
void prepare_matmul();
void prepare_skinny();
void prepare_tiled();
void prepare_hopper();

}  // namespace glint::ops::cuda
