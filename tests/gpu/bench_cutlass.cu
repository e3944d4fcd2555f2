// CUTLASS's FP8 product with block scales for Hopper, beside ours. Built with GLINT_CUTLASS alone.
#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>

#include <cutlass/detail/blockwise_scale_layout.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

#include "bench_parts.h"
#include "peer_product.h"

namespace glint::gpu {

namespace {

using cute::_1;
using cute::_128;
using cute::_2;
using E4m3 = cutlass::float_e4m3_t;
using Bf16 = cutlass::bfloat16_t;
using Tile = cute::Shape<_128, _128, _128>;
using Cluster = cute::Shape<_2, _1, _1>;
// A scale for each row of x and 128 columns, rows adjacent; one for each block of W, blocks of a row
// adjacent.
using Scales =
    cutlass::detail::Sm90BlockwiseScaleConfig<1, 128, 128, cute::GMMA::Major::MN, cute::GMMA::Major::K>;
using XScales = decltype(Scales::deduce_layoutSFA());
using WScales = decltype(Scales::deduce_layoutSFB());
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;

using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, RowMajor, 8, Bf16, RowMajor, 8,
    cutlass::epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, E4m3, cute::tuple<RowMajor, XScales>, 16, E4m3,
    cute::tuple<ColumnMajor, WScales>, 16, float, Tile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
        sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8Blockwise>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

void taken(cutlass::Status status) {
  expect(status == cutlass::Status::kSuccess, "CUTLASS: ", cutlassGetStatusString(status));
}

Gemm::Arguments arguments(PeerProduct& product, int copy) {
  const auto m = static_cast<int>(product.m);
  const auto n = static_cast<int>(product.n);
  const auto k = static_cast<int>(product.k);
  const auto shape = cute::make_shape(m, n, k, 1);
  const auto x_stride = cutlass::make_cute_packed_stride(Kernel::StrideA{}, cute::make_shape(m, k, 1));
  const auto w_stride = cutlass::make_cute_packed_stride(Kernel::StrideB{}, cute::make_shape(n, k, 1));
  const auto y_stride = cutlass::make_cute_packed_stride(Kernel::StrideD{}, cute::make_shape(m, n, 1));
  Gemm::Arguments all{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {m, n, k, 1},
      {reinterpret_cast<const E4m3*>(product.x()), x_stride, reinterpret_cast<const E4m3*>(product.w(copy)),
       w_stride, product.x_scales(), Scales::tile_atom_to_shape_SFA(shape), product.w_scales(),
       Scales::tile_atom_to_shape_SFB(shape)},
      {{}, nullptr, {}, reinterpret_cast<Bf16*>(product.y()), y_stride}};
  all.epilogue.thread.alpha = 1;
  all.epilogue.thread.beta = 0;
  return all;
}

void bench_one(Bench& bench, const PeerShape& shape, int64_t m) {
  const std::string name = cat("CUTLASS fp8 blocks ", shape.name, " M ", m);
  PeerProduct product(PeerForm::fp8_blocks, m, shape.rows, shape.cols, bench.stream());
  std::vector<Gemm> products(static_cast<size_t>(product.copies()));
  const Slab workspace(static_cast<int64_t>(Gemm::get_workspace_size(arguments(product, 0))) + 256);
  for (int copy = 0; copy < product.copies(); ++copy) {
    taken(Gemm::can_implement(arguments(product, copy)));
    taken(products[static_cast<size_t>(copy)].initialize(arguments(product, copy), workspace.data,
                                                         bench.stream()));
  }
  add_peer(bench, name, product,
           [&](int copy) { taken(products[static_cast<size_t>(copy)].run(bench.stream())); });
}

}  // namespace

void bench_cutlass(Bench& bench) {
  for (const PeerShape& shape : kPeerShapes) {
    for (const int64_t m : {1, 16, 4096}) {
      try {
        bench_one(bench, shape, m);
      } catch (const std::exception& error) {  // a shape that it does not take
        std::printf("%s M %d: %s\n", shape.name, static_cast<int>(m), error.what());
      }
    }
  }
}

}  // namespace glint::gpu
