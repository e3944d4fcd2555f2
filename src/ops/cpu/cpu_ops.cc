// Memory, element-wise operations and norms.
#include <cmath>

#include "base/error.h"
#include "base/numeric.h"
#include "ops/cpu/cpu_ops_impl.h"

namespace glint::ops::cpu {

Activation CpuOps::activation(int64_t rows, int64_t cols) {
  return {take<float>(rows * cols), rows, cols, cols};
}

Floats CpuOps::floats(int64_t rows, int64_t cols) {
  return {take<float>(rows * cols), rows, cols, cols};
}

Ints CpuOps::ints(int64_t rows, int64_t cols) {
  return {take<int32_t>(rows * cols), rows, cols};
}

Activation CpuOps::columns(Activation x, int64_t first, int64_t cols) const {
  return {x.data == nullptr ? nullptr : data_of(x) + first, x.rows, cols, x.stride};
}

void CpuOps::embed(const int32_t* ids, const Weight& table, Activation y) {
  if (arena_.measuring()) return;
  each_row(y.rows, y.cols, [&](int64_t row) {
    kernels_.decode_rows(table, ids[row], 1, row_of(y, row), y.cols);
    round_row(row_of(y, row), y.cols);
  });
}

void CpuOps::rms_norm(Activation x, const float* weight, float eps, Activation y) {
  if (arena_.measuring()) return;
  each_row(x.rows, x.cols, [&](int64_t row) {
    const float* in = row_of(x, row);
    float* out = row_of(y, row);
    const float mean = kernels_.sum_squares(in, x.cols) / static_cast<float>(x.cols);
    const float factor = 1.0F / std::sqrt(mean + eps);
    for (int64_t i = 0; i < x.cols; ++i) out[i] = weight[i] * (in[i] * factor);
    round_row(out, x.cols);
  });
}

void CpuOps::layer_norm(Activation x, const float* weight, const float* bias, float eps, Activation y) {
  if (arena_.measuring()) return;
  each_row(x.rows, x.cols, [&](int64_t row) {
    const float* in = row_of(x, row);
    float* out = row_of(y, row);
    const auto count = static_cast<double>(x.cols);
    double sum = 0;
    for (int64_t i = 0; i < x.cols; ++i) sum += static_cast<double>(in[i]);
    const double mean = sum / count;
    double squares = 0;
    for (int64_t i = 0; i < x.cols; ++i) {
      const double gap = static_cast<double>(in[i]) - mean;
      squares += gap * gap;
    }
    const auto factor = static_cast<float>(1.0 / std::sqrt(squares / count + static_cast<double>(eps)));
    const auto center = static_cast<float>(mean);
    for (int64_t i = 0; i < x.cols; ++i) out[i] = weight[i] * ((in[i] - center) * factor) + bias[i];
    round_row(out, x.cols);
  });
}

void CpuOps::rope(Activation x, int64_t heads, int64_t head_dim, int64_t first, int64_t dim, double theta,
                  RopePairs pairs, const int32_t* position) {
  if (arena_.measuring()) return;
  const int64_t half = dim / 2;
  std::vector<float>& inverse = inverse_frequencies_[{theta, dim}];
  for (int64_t i = static_cast<int64_t>(inverse.size()); i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    inverse.push_back(1.0F / std::pow(static_cast<float>(theta), exponent));
  }
  const int64_t near = pairs == RopePairs::interleaved ? 2 : 1;
  const int64_t partner = pairs == RopePairs::interleaved ? 1 : half;
  each_row(x.rows, heads * dim * 4, [&](int64_t row) {
    float* values = row_of(x, row) + first;
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position[row]) * inverse[static_cast<size_t>(i)];
      const float c = std::cos(angle);
      const float s = std::sin(angle);
      for (int64_t h = 0; h < heads; ++h) {
        float& a = values[h * head_dim + near * i];
        float& b = values[h * head_dim + near * i + partner];
        const float turned = a * c - b * s;
        b = b * c + a * s;
        a = turned;
      }
    }
    for (int64_t h = 0; h < heads; ++h) round_row(values + h * head_dim, dim);
  });
}

void CpuOps::swiglu(Activation gate, Activation up, Activation y) {
  if (arena_.measuring()) return;
  each_row(y.rows, y.cols, [&](int64_t row) {
    kernels_.swiglu(row_of(gate, row), row_of(up, row), y.cols, row_of(y, row));
    round_row(row_of(y, row), y.cols);
  });
}

void CpuOps::add(Floats y, Floats x) {
  if (arena_.measuring()) return;
  each_row(x.rows, x.cols, [&](int64_t row) {
    for (int64_t i = 0; i < x.cols; ++i) row_of(x, row)[i] += row_of(y, row)[i];
  });
}

void CpuOps::add(Floats y, Activation x) {
  if (arena_.measuring()) return;
  each_row(x.rows, x.cols, [&](int64_t row) {
    float* out = row_of(x, row);
    const float* in = row_of(y, row);
    for (int64_t i = 0; i < x.cols; ++i) out[i] += in[i];
    round_row(out, x.cols);
  });
}

void CpuOps::add(Activation y, Activation x) {
  add(Floats{data_of(y), y.rows, y.cols, y.stride}, x);
}

void CpuOps::copy(Activation x, Activation y) {
  if (arena_.measuring()) return;
  each_row(x.rows, x.cols, [&](int64_t row) { std::copy_n(row_of(x, row), x.cols, row_of(y, row)); });
}

void CpuOps::gather_rows(Activation x, const int32_t* rows, Activation y) {
  if (arena_.measuring()) return;
  each_row(y.rows, y.cols, [&](int64_t row) { std::copy_n(row_of(x, rows[row]), y.cols, row_of(y, row)); });
}

void CpuOps::gather_selection(const Selection& x, const int32_t* rows, const Selection& y) {
  if (arena_.measuring()) return;
  for (int64_t row = 0; row < y.lists.rows; ++row) {
    y.count[row] = x.count[rows[row]];
    std::copy_n(x.lists.data + rows[row] * x.lists.cols, y.count[row], y.lists.data + row * y.lists.cols);
  }
}

void CpuOps::download(Activation x, float* out) {
  GLINT_CHECK(!arena_.measuring());
  for (int64_t row = 0; row < x.rows; ++row) std::copy_n(row_of(x, row), x.cols, out + row * x.cols);
}

void CpuOps::upload(const float* in, Activation x) {
  GLINT_CHECK(!arena_.measuring());
  for (int64_t row = 0; row < x.rows; ++row) {
    std::copy_n(in + row * x.cols, x.cols, row_of(x, row));
    round_row(row_of(x, row), x.cols);
  }
}

void CpuOps::download(Floats x, float* out) {
  GLINT_CHECK(!arena_.measuring());
  for (int64_t row = 0; row < x.rows; ++row) std::copy_n(row_of(x, row), x.cols, out + row * x.cols);
}

void CpuOps::download(Ints x, int32_t* out) {
  GLINT_CHECK(!arena_.measuring());
  std::copy_n(x.data, x.rows * x.cols, out);
}

void CpuOps::upload(const int32_t* in, Ints x) {
  GLINT_CHECK(!arena_.measuring());
  std::copy_n(in, x.rows * x.cols, x.data);
}

std::unique_ptr<Ops> make_cpu_ops(ThreadPool& pool, Isa isa, ComputeDType dtype, Arena& arena,
                                  int64_t indexer_scratch_bytes) {
  return std::make_unique<CpuOps>(pool, isa, dtype, arena, indexer_scratch_bytes);
}

}  // namespace glint::ops::cpu
