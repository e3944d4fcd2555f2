// Routing and the routed experts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "ops/cpu/cpu_ops_impl.h"

namespace glint::ops::cpu {

namespace {

float sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

// Indices of the `count` largest values, lowest index first among equals, in ascending order: the first
// `count` of `order`, which has room for as many as there are values.
void largest(std::span<const float> values, int64_t count, int32_t* order) {
  int32_t* end = order + values.size();
  std::iota(order, end, 0);
  std::partial_sort(order, order + count, end, [&](int32_t a, int32_t b) {
    const float x = values[static_cast<size_t>(a)];
    const float y = values[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::sort(order, order + count);
}

float sum_of_two_largest(std::span<const float> values) {
  float first = -std::numeric_limits<float>::infinity();
  float second = first;
  for (const float value : values) {
    if (value > first)
      second = std::exchange(first, value);
    else if (value > second)
      second = value;
  }
  return first + second;
}

// Only the best groups stay eligible: a group's worth is the sum of its two best scores. `worth` and `order`
// have room for n_group entries.
void keep_best_groups(std::span<float> choice, const RouteParams& params, float* worth, int32_t* order) {
  const auto groups = static_cast<size_t>(params.n_group);
  const size_t size = choice.size() / groups;
  for (size_t g = 0; g < groups; ++g) worth[g] = sum_of_two_largest(choice.subspan(g * size, size));
  largest({worth, groups}, params.topk_group, order);
  for (size_t g = 0; g < groups; ++g) {
    if (std::binary_search(order, order + params.topk_group, static_cast<int32_t>(g))) continue;
    std::ranges::fill(choice.subspan(g * size, size), -std::numeric_limits<float>::infinity());
  }
}

}  // namespace

void CpuOps::choose_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts) {
  const int64_t count = logits.cols;
  const Arena::Scope scope(arena_);
  float* scores = take<float>((count + params.n_group) * pool_.size());
  auto* orders = take<int32_t>(count * pool_.size());
  if (arena_.measuring()) return;
  each_row(logits.rows, count * 16, [&](int64_t row, int worker) {
    float* worth = scores + worker * (count + params.n_group);
    const std::span<float> choice(worth + params.n_group, static_cast<size_t>(count));
    int32_t* order = orders + worker * count;
    for (size_t e = 0; e < choice.size(); ++e) {
      const float score = sigmoid(row_of(logits, row)[e]) + bias[e];
      // A NaN would break the order that sorting relies on; it still poisons this row's own weights.
      choice[e] = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
    }
    if (params.n_group > 1) keep_best_groups(choice, params, worth, order);
    largest(choice, params.num_experts_per_tok, order);
    std::copy_n(order, params.num_experts_per_tok, experts.data + row * experts.cols);
  });
}

void CpuOps::weigh_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts,
                           Floats weights) {
  if (arena_.measuring()) return;
  for (int64_t row = 0; row < experts.rows; ++row) {
    const int32_t* chosen = experts.data + row * experts.cols;
    float* weight = row_of(weights, row);
    float sum = 0;
    for (int64_t j = 0; j < experts.cols; ++j) {
      weight[j] = sigmoid(row_of(logits, row)[chosen[j]]);
      if (params.weights_from_biased_scores) weight[j] += bias[chosen[j]];
      sum += weight[j];
    }
    const float divisor = params.norm_topk_prob ? sum + 1e-20F : 1.0F;
    for (int64_t j = 0; j < experts.cols; ++j) weight[j] = weight[j] / divisor * params.routed_scaling_factor;
  }
}

struct CpuOps::ExpertGroup {
  int32_t expert = 0;
  int64_t first = 0;  // in the list of (token, slot) pairs
  int64_t count = 0;
};

void CpuOps::experts(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                     Floats y) {
  // Rows are taken in blocks so that the gathered copies stay within a bound whatever the step's size.
  constexpr int64_t kGatherBytes = int64_t{128} << 20;
  const int64_t inner = table[0].gate.rows;
  const int64_t bytes_per_row = experts.cols * (x.cols + 2 * inner) * 4;
  const int64_t block = std::max<int64_t>(16, kGatherBytes / bytes_per_row);
  for (int64_t first = 0; first < x.rows; first += block) {
    const int64_t count = std::min(block, x.rows - first);
    const Activation part{data_of(x) == nullptr ? nullptr : row_of(x, first), count, x.cols, x.stride};
    const Ints chosen{experts.data == nullptr ? nullptr : experts.data + first * experts.cols, count,
                      experts.cols};
    const Floats factors{weights.data == nullptr ? nullptr : row_of(weights, first), count, weights.cols,
                         weights.stride};
    const Floats sums{y.data == nullptr ? nullptr : row_of(y, first), count, y.cols, y.stride};
    expert_block(part, chosen, factors, table, sums);
  }
}

void CpuOps::expert_block(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                          Floats y) {
  const int64_t pairs = x.rows * experts.cols;
  const int64_t width = x.cols;
  const int64_t inner = table[0].gate.rows;
  const Arena::Scope scope(arena_);
  float* gathered = take<float>(pairs * width);
  float* gate = take<float>(pairs * inner);
  float* up = take<float>(pairs * inner);
  const int64_t matmul_floats = kernels_.matmul_scratch_floats(std::max(width, inner));
  float* scratch = take<float>(matmul_floats * pool_.size());
  const int64_t step_down = columns_per_item(width);
  float* partial = take<float>(x.rows * step_down * pool_.size());
  auto* pair_of = take<int32_t>(pairs);
  const auto experts_count = static_cast<int64_t>(table.size());
  auto* start = take<int64_t>(experts_count + 1);
  auto* next = take<int64_t>(experts_count);
  const std::span<ExpertGroup> group_of(take<ExpertGroup>(experts_count), table.size());
  if (arena_.measuring()) return;

  // Group the (token, slot) pairs by expert, tokens ascending within an expert.
  std::fill_n(start, experts_count + 1, 0);
  for (int64_t pair = 0; pair < pairs; ++pair) ++start[experts.data[pair] + 1];
  std::partial_sum(start, start + experts_count + 1, start);
  std::copy_n(start, experts_count, next);
  for (int64_t pair = 0; pair < pairs; ++pair) {
    pair_of[next[experts.data[pair]]++] = static_cast<int32_t>(pair);
  }
  size_t used = 0;
  for (int64_t e = 0; e < experts_count; ++e) {
    if (start[e + 1] > start[e])
      group_of[used++] = {static_cast<int32_t>(e), start[e], start[e + 1] - start[e]};
  }
  const std::span<const ExpertGroup> groups = group_of.first(used);
  each_row(pairs, width, [&](int64_t i) {
    std::copy_n(row_of(x, pair_of[i] / experts.cols), width, gathered + i * width);
  });

  const int64_t step_up =
      std::max(kernels_.matmul_block, columns_per_item(inner * static_cast<int64_t>(groups.size())));
  const int64_t parts = ceil_div(inner, step_up);
  pool_.run(static_cast<int64_t>(groups.size()) * parts, [&](int64_t item, int worker) {
    const ExpertGroup& group = groups[static_cast<size_t>(item / parts)];
    const ExpertWeights& expert = table[static_cast<size_t>(group.expert)];
    const int64_t n0 = item % parts * step_up;
    const int64_t n1 = std::min(inner, n0 + step_up);
    const float* in = gathered + group.first * width;
    float* g = gate + group.first * inner + n0;
    float* u = up + group.first * inner + n0;
    float* mine = scratch + worker * matmul_floats;
    kernels_.matmul(in, width, group.count, expert.gate, n0, n1, g, inner, bf16(), mine);
    kernels_.matmul(in, width, group.count, expert.up, n0, n1, u, inner, bf16(), mine);
    for (int64_t row = 0; row < group.count; ++row) {
      round_row(g + row * inner, n1 - n0);
      round_row(u + row * inner, n1 - n0);
      kernels_.swiglu(g + row * inner, u + row * inner, n1 - n0, g + row * inner);
      round_row(g + row * inner, n1 - n0);
    }
  });

  pool_.run(ceil_div(width, step_down), [&](int64_t item, int worker) {
    const int64_t n0 = item * step_down;
    const int64_t n1 = std::min(width, n0 + step_down);
    float* sums = partial + worker * x.rows * step_down;
    for (int64_t row = 0; row < x.rows; ++row) std::fill(row_of(y, row) + n0, row_of(y, row) + n1, 0.0F);
    // Experts ascending: every row adds its experts in the order of its list.
    for (const ExpertGroup& group : groups) {
      kernels_.matmul(gate + group.first * inner, inner, group.count,
                      table[static_cast<size_t>(group.expert)].down, n0, n1, sums, step_down, bf16(),
                      scratch + worker * matmul_floats);
      for (int64_t i = 0; i < group.count; ++i) {
        const int32_t pair = pair_of[group.first + i];
        const float factor = row_of(weights, pair / experts.cols)[pair % experts.cols];
        float* out = row_of(y, pair / experts.cols) + n0;
        for (int64_t n = 0; n < n1 - n0; ++n) out[n] += factor * sums[i * step_down + n];
      }
    }
  });
}

}  // namespace glint::ops::cpu
