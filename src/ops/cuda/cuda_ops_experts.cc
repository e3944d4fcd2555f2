// The routed experts: grouping, two products, and the weighted sum.
#include <algorithm>

#include "ops/cuda/cuda_ops_impl.h"

namespace glint::ops::cuda {

void CudaOps::experts(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                      Floats y) {
  const int64_t block =
      expert_block_rows(options_.limits, x.rows, x.cols, table[0].gate.rows, experts.cols, bf16() ? 2 : 4);
  for (int64_t first = 0; first < x.rows; first += block) {
    const int64_t count = std::min(block, x.rows - first);
    Activation part = x;
    part.rows = count;
    Ints chosen{experts.data, count, experts.cols};
    Floats factors{weights.data, count, weights.cols, weights.stride};
    Floats sums{y.data, count, y.cols, y.stride};
    if (!arena_.measuring()) {
      part.data = static_cast<std::byte*>(x.data) + first * x.stride * element_bytes();
      chosen.data += first * experts.cols;
      factors.data += first * weights.stride;
      sums.data += first * y.stride;
    }
    expert_block(part, chosen, factors, table, sums);
  }
}

namespace {

/// Rows of one expert that a tile should hold: about what a group has on average, so that few rows are
/// wasted; many where weights are read once for them all. The Hopper form widens NVFP4 weights for a tile
/// slower than few rows need them.
int64_t expert_tile_rows(int64_t pairs, int64_t experts, WeightFormat format, bool hopper) {
  const int64_t mean = ceil_div(pairs, experts);
  if (mean <= 4) return 8;
  if (mean <= 12) return 16;
  if (hopper && !(format == WeightFormat::nvfp4 && mean <= 24)) return 128;
  return mean <= 24 ? 32 : mean <= 96 ? 64 : 128;
}

/// Of the matrices `which` of the table, and of those `slice` beside them.
TablePlaces table_places(std::span<const ExpertWeights> table, Weight ExpertWeights::*which,
                         Weight ExpertWeights::*slice) {
  const auto address = [&](size_t e, Weight ExpertWeights::*matrix) {
    return reinterpret_cast<intptr_t>((table[e].*matrix).data);
  };
  const int64_t slice_bytes = address(0, slice) - address(0, which);
  const int64_t bytes = table.size() > 1 ? address(1, which) - address(0, which) : 0;
  for (size_t e = 0; e < table.size(); ++e) {
    const intptr_t place = address(0, which) + static_cast<int64_t>(e) * bytes;
    if (address(e, which) != place || address(e, slice) != place + slice_bytes) return {};
  }
  if (bytes < 0 || bytes % 16 != 0 || slice_bytes < 0 || slice_bytes % 16 != 0) return {};
  return {.count = static_cast<int64_t>(table.size()), .bytes = bytes, .slice_bytes = slice_bytes};
}

}  // namespace

void CudaOps::expert_block(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                           Floats y) {
  const Arena::Scope scope(arena_);
  const int64_t pairs = experts.rows * experts.cols;
  const auto experts_count = static_cast<int64_t>(table.size());
  const Weight& gate = table[0].gate;
  const int64_t inner = gate.rows;
  const bool quantized = quantizes(gate);
  const auto known = tables_.find(table.data());  // not while the arena measures
  Matmul up;
  up.batch_invariant = options_.batch_invariant;
  up.weight = gate;
  up.input = quantized ? InputFormat::fp8 : input_format();
  up.table = known == tables_.end() ? nullptr : known->second;
  up.table_places = table_places(table, &ExpertWeights::gate, &ExpertWeights::up);
  PairGroups groups{.tile_rows = expert_tile_rows(pairs, experts_count, gate.format, takes_hopper_form(up))};
  groups.tiles_max = tiles_max(pairs, experts_count, groups.tile_rows);
  groups.row = take<int32_t>(pairs);
  groups.place = take<int32_t>(pairs);
  // What the tiles take must not shrink when there are more rows: the planned step has the most rows.
  const int64_t room = std::min(pairs, experts_count + pairs / 8);
  groups.used = take<int32_t>(1);
  groups.expert = take<int32_t>(room);
  groups.first = take<int32_t>(room);
  groups.count = take<int32_t>(room);
  const QuantizedRows input = quantized ? take_quantized(x.rows, x.cols) : QuantizedRows{};
  const Activation both = activation(2 * pairs, inner);
  const QuantizedRows middle = quantized ? take_quantized(pairs, inner) : QuantizedRows{};
  float* sums = take<float>(pairs * x.cols);
  if (!runs(x.rows)) return;

  GLINT_CHECK(known != tables_.end());
  group_pairs(experts, experts_count, groups, stream_);
  if (quantized) {
    quantize_rows(x, input, stream_);
    set_input(up, input);
  } else {
    set_input(up, x);
  }
  up.x_rows = groups.row;
  up.rows = pairs;
  up.table_stride = 3;
  up.tiles = {.used = groups.used,
              .expert = groups.expert,
              .first = groups.first,
              .count = groups.count,
              .tiles_max = groups.tiles_max,
              .tile_rows = groups.tile_rows};
  up.y = both.data;
  up.y_stride = inner;
  up.batch = 2;  // gate, then up
  up.y_batch = pairs * inner;
  multiply(up, stream_);

  const Activation gates{both.data, pairs, inner, inner};
  const Activation ups{static_cast<std::byte*>(both.data) + pairs * inner * element_bytes(), pairs, inner,
                       inner};
  Matmul down;
  down.batch_invariant = options_.batch_invariant;
  if (quantized) {
    swiglu_quantize_rows(gates, ups, middle, stream_);
    set_input(down, middle);
  } else {
    cuda::swiglu(gates, ups, gates, dtype_, stream_);
    set_input(down, gates);
  }
  down.rows = pairs;
  down.weight = table[0].down;
  down.table = known->second + 2;
  down.table_places = table_places(table, &ExpertWeights::down, &ExpertWeights::down);
  down.table_stride = 3;
  down.tiles = up.tiles;
  down.tiles.settled = true;
  down.y_is_float = true;
  down.y = sums;
  down.y_stride = x.cols;
  multiply(down, stream_);
  combine_pairs(sums, x.cols, groups.place, weights, y, stream_);
}

}  // namespace glint::ops::cuda
