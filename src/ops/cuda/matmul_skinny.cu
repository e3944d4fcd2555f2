// Few rows of x: which of the kernels of skinny_kernel.cuh takes a product, and how it is spread over the
// multiprocessors. The choices are measured ones and change no bits.
#include <algorithm>

#include "ops/cuda/check.h"
#include "ops/cuda/skinny_kernel.cuh"

namespace glint::ops::cuda {

namespace {

struct Device {
  int64_t multiprocessors = 1;
  int64_t shared_max = 48 << 10;  // bytes of a block
};
Device device;

int64_t tile_rows(const Matmul& p) {
  return p.tiles.used == nullptr ? p.rows : p.tiles.tile_rows;
}

/// A kernel for kCols times 8 rows of x with kRows times 16 rows of W a block; at least kPerSm blocks of
/// kWarpsMax warps shall fit into a multiprocessor's registers.
template <class Form, int kRows, int kCols, int kSpan, int kRing, int kWarpsMax, int kPerSm>
struct Kernel {
  using I = Item<Form, kRows, kSpan>;
  static constexpr auto kKernel = skinny_kernel<Form, kRows, kCols, kSpan, kRing, kWarpsMax, kPerSm>;

  static int64_t col_tiles(const Matmul& p) {
    const int64_t out_cols = p.out_cols == 0 ? p.weight.rows : p.out_cols;
    return (out_cols + I::kTileW - 1) / I::kTileW;
  }

  static int64_t sum_rows(const Matmul& p) { return std::min<int64_t>(tile_rows(p), kCols * 8); }

  /// Bytes of the sums of one item of each warp.
  static int64_t turn_bytes(const Matmul& p, int64_t warps) {
    return warps * kSpan * sum_rows(p) * kSumStride<kRows> * 4;
  }

  /// Turns between two barriers: all at once where that takes little or a multiprocessor has one block, else
  /// few, so that more blocks fit in.
  static int64_t turns(const Matmul& p, int64_t warps) {
    constexpr int64_t kLittle = 40 << 10, kMost = 64 << 10, kFew = 16 << 10;
    const int64_t step = warps * kSpan * kBlockCols;
    const int64_t all = (p.weight.cols + step - 1) / step;
    const int64_t turn = turn_bytes(p, warps);
    if (all * turn <= kLittle) return all;
    const bool alone = col_tiles(p) * row_tile_count<kCols * 8>(p) * p.batch <= device.multiprocessors;
    return std::clamp<int64_t>((alone ? kMost : kFew) / turn, 1, all);
  }

  static int64_t shared_bytes(const Matmul& p, int64_t warps, int64_t turns) {
    const bool once = turns * warps * kSpan * kBlockCols >= p.weight.cols;
    const int64_t slot = I::kBytes + Inputs<Form, kCols, kSpan>::bytes(static_cast<int>(sum_rows(p)));
    return warps * kRing * slot + (once ? 1 : 2) * turns * turn_bytes(p, warps);
  }

  static void prepare() {
    check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(device.shared_max)),
          "raising a kernel's shared memory");
  }

  static void launch(const Matmul& p, int64_t warps, cudaStream_t stream) {
    int64_t turns_of_round = turns(p, warps);
    if (shared_bytes(p, warps, turns_of_round) > device.shared_max) turns_of_round = 1;
    if (shared_bytes(p, warps, turns_of_round) > device.shared_max) warps = kWarpsMin;
    const dim3 grid(static_cast<unsigned>(col_tiles(p)), static_cast<unsigned>(row_tile_count<kCols * 8>(p)),
                    static_cast<unsigned>(p.batch));
    launch_early(kKernel, grid, static_cast<unsigned>(warps) * kLanes,
                 static_cast<size_t>(shared_bytes(p, warps, turns_of_round)), stream,
                 "launching multiply_skinny", p,
                 Spread{static_cast<int>(sum_rows(p)), static_cast<int>(turns_of_round)});
  }
};

// Rows of x beside the weights in the ring cost room: with more of them less is under way.
using Fp8One = Kernel<Fp8Form, 1, 1, 2, 3, 8, 3>;
using Fp8Alone = Kernel<Fp8Form, 1, 1, 2, 2, 8, 3>;
using Fp8Narrow = Kernel<Fp8Form, 1, 1, 1, 3, 8, 3>;
using Fp8WideOne = Kernel<Fp8Form, 2, 1, 1, 3, 8, 2>;
using Fp8Wide = Kernel<Fp8Form, 2, 1, 1, 2, 8, 2>;
using Fp8Narrow16 = Kernel<Fp8Form, 1, 2, 1, 3, 8, 2>;
using Fp8Middle16 = Kernel<Fp8Form, 1, 2, 1, 2, 8, 3>;
using Fp8Wide16 = Kernel<Fp8Form, 2, 2, 1, 2, 8, 2>;
using Fp8Rows32 = Kernel<Fp8Form, 1, 4, 1, 2, 8, 2>;
using Fp4 = Kernel<Fp4Form, 2, 1, 2, 2, 4, 4>;
using Fp4Rows16 = Kernel<Fp4Form, 2, 2, 2, 2, 4, 4>;
using Fp4Rows32 = Kernel<Fp4Form, 1, 4, 2, 2, 4, 4>;
template <int kCols>
using Bf16 = Kernel<Bf16Form, 1, kCols, 1, 3, 8, 2>;

/// How many tiles of 16 rows of W a multiprocessor gets.
struct Load {
  explicit Load(const Matmul& p)
      : tiles(((p.out_cols == 0 ? p.weight.rows : p.out_cols) + 15) / 16 * p.batch),
        grouped(p.tiles.used != nullptr),
        short_rows(p.weight.cols <= 2048) {}
  [[nodiscard]] bool at_most(int64_t each) const {
    return !grouped && tiles <= each * device.multiprocessors;
  }
  int64_t tiles;
  bool grouped;
  bool short_rows;
};

void launch_fp8_rows8(const Matmul& p, const Load& load, cudaStream_t stream) {
  const bool one = tile_rows(p) == 1;
  const int64_t warps = load.at_most(2) ? 8 : 4;
  if (load.at_most(4) && !load.short_rows) {
    if (one) {
      Fp8One::launch(p, warps, stream);
    } else if (load.at_most(1)) {
      Fp8Alone::launch(p, warps, stream);
    } else {
      Fp8Narrow::launch(p, warps, stream);
    }
  } else if (one && !load.grouped) {
    Fp8WideOne::launch(p, load.at_most(4) ? 6 : 4, stream);
  } else {
    Fp8Wide::launch(p, load.short_rows && !load.grouped ? 8 : 4, stream);
  }
}

void launch_fp8_rows16(const Matmul& p, const Load& load, cudaStream_t stream) {
  if (load.at_most(1)) {
    Fp8Narrow16::launch(p, 8, stream);
  } else if (load.at_most(2)) {
    Fp8Wide16::launch(p, 8, stream);
  } else if (load.at_most(4)) {
    Fp8Middle16::launch(p, load.short_rows ? 6 : 4, stream);
  } else {
    Fp8Wide16::launch(p, 4, stream);
  }
}

void launch_fp8(const Matmul& p, cudaStream_t stream) {
  const int64_t rows = tile_rows(p);
  if (rows > 16) {
    Fp8Rows32::launch(p, 4, stream);
  } else if (rows > 8) {
    launch_fp8_rows16(p, Load(p), stream);
  } else {
    launch_fp8_rows8(p, Load(p), stream);
  }
}

void launch_fp4(const Matmul& p, cudaStream_t stream) {
  const int64_t rows = tile_rows(p);
  if (rows > 16) {
    Fp4Rows32::launch(p, 4, stream);
  } else if (rows > 8) {
    Fp4Rows16::launch(p, 4, stream);
  } else {
    Fp4::launch(p, 4, stream);
  }
}

void launch_bf16(const Matmul& p, cudaStream_t stream) {
  const int64_t rows = tile_rows(p);
  const int64_t warps = p.weight.cols >= 2048 ? 8 : 4;
  if (rows > 16) {
    Bf16<4>::launch(p, warps, stream);
  } else if (rows > 8) {
    Bf16<2>::launch(p, warps, stream);
  } else {
    Bf16<1>::launch(p, warps, stream);
  }
}

template <class... Kernels>
void prepare_all() {
  (Kernels::prepare(), ...);
}

}  // namespace

void prepare_skinny() {
  int number = 0;
  int multiprocessors = 0;
  int shared = 0;
  check(cudaGetDevice(&number), "asking for the device");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, number),
        "asking for the device");
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, number),
        "asking for the device");
  device = {multiprocessors, shared};
  prepare_all<Fp8One, Fp8Alone, Fp8Narrow, Fp8WideOne, Fp8Wide, Fp8Narrow16, Fp8Middle16, Fp8Wide16,
              Fp8Rows32, Fp4, Fp4Rows16, Fp4Rows32, Bf16<1>, Bf16<2>, Bf16<4>>();
}

void multiply_skinny(const Matmul& p, cudaStream_t stream) {
  if (p.rows == 0) return;
  switch (p.weight.format) {
    case WeightFormat::bf16:
      launch_bf16(p, stream);
      break;
    case WeightFormat::fp8_block:
      launch_fp8(p, stream);
      break;
    default:
      launch_fp4(p, stream);
      break;
  }
}

}  // namespace glint::ops::cuda
