// The operations that go row by row, and the cache's formats.
#include <cmath>

#include "base/cpu_features.h"
#include "base/threads.h"
#include "cache/paged_cache.h"
#include "gpu_support.h"
#include "ops/cpu/cpu_ops.h"

namespace glint::gpu {
namespace {

double bound_of(const Backend& backend) {
  return backend.bf16() ? 2.5e-3 : 2e-6;
}

void check_error(double error, double bound, const std::string& what) {
  expect(error < bound, what, ": error ", error);
}

std::vector<double> row_norm(const float* x, int64_t cols, const std::vector<float>& weight,
                             const float* bias, double eps) {
  double mean = 0;
  if (bias != nullptr) {
    for (int64_t i = 0; i < cols; ++i) mean += static_cast<double>(x[i]) / static_cast<double>(cols);
  }
  double squares = 0;
  for (int64_t i = 0; i < cols; ++i) squares += std::pow(static_cast<double>(x[i]) - mean, 2);
  const double factor = 1 / std::sqrt(squares / static_cast<double>(cols) + eps);
  std::vector<double> out(static_cast<size_t>(cols));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<double>(weight[i]) * (static_cast<double>(x[i]) - mean) * factor +
             (bias != nullptr ? static_cast<double>(bias[i]) : 0.0);
  }
  return out;
}

void check_norms(ComputeDType dtype) {
  std::mt19937_64 random(std::random_device{}());
  Backend backend(dtype);
  for (const int64_t cols : {128, 512, 2048, 6144, 40, 97}) {
    backend.reset();
    const int64_t rows = 37;
    const std::vector<float> x = backend.random_values(rows * cols, 3.0, random);
    std::vector<float> weight = backend.random_values(cols, 1.0, random);
    std::vector<float> bias = backend.random_values(cols, 1.0, random);
    const DeviceArray<float> device_weight(weight);
    const DeviceArray<float> device_bias(bias);
    const Activation y = backend.poisoned(rows, cols);
    const Activation z = backend.poisoned(rows, cols);
    const Activation in = backend.put(x, cols);
    backend.ops().rms_norm(in, device_weight.data(), 1e-5F, y);
    backend.ops().layer_norm(in, device_weight.data(), device_bias.data(), 1e-6F, z);
    std::vector<double> expected;
    std::vector<double> expected_layer;
    for (int64_t row = 0; row < rows; ++row) {
      const auto a = row_norm(x.data() + row * cols, cols, weight, nullptr, 1e-5);
      const auto b = row_norm(x.data() + row * cols, cols, weight, bias.data(), 1e-6);
      expected.insert(expected.end(), a.begin(), a.end());
      expected_layer.insert(expected_layer.end(), b.begin(), b.end());
    }
    const std::vector<float> found = backend.get(y);
    check_error(relative_error(found, expected), bound_of(backend), "rms_norm");
    check_error(relative_error(backend.get(z), expected_layer), bound_of(backend), "layer_norm");
    const Activation one = backend.put({x.begin(), x.begin() + cols}, cols);
    backend.ops().rms_norm(one, device_weight.data(), 1e-5F, one);
    expect_same_bits(backend.get(one), {found.begin(), found.begin() + cols}, "a row alone, in place");
  }
}

void check_rope(ComputeDType dtype) {
  std::mt19937_64 random(std::random_device{}());
  Backend backend(dtype);
  for (const auto pairs : {ops::RopePairs::interleaved, ops::RopePairs::half_split}) {
    backend.reset();
    const int64_t rows = 65, heads = 64, head_dim = 256, first = 192, dim = 64;
    std::vector<int32_t> positions;
    for (int64_t i = 0; i < rows; ++i)
      positions.push_back(i == 0 ? 1048575 : static_cast<int32_t>(random() % 1048576));
    std::vector<float> x = backend.random_values(rows * heads * head_dim, 1.0, random);
    const Activation y = backend.put(x, heads * head_dim);
    backend.ops().rope(y, heads, head_dim, first, dim, 8e6, pairs, backend.put_ints(positions, 1).data);
    std::vector<double> expected(x.begin(), x.end());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < dim / 2; ++i) {
        // The angle is a float32 product by definition.
        const float inverse = 1.0F / std::pow(8e6F, static_cast<float>(2 * i) / static_cast<float>(dim));
        const double angle =
            static_cast<double>(static_cast<float>(positions[static_cast<size_t>(row)]) * inverse);
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t base = (row * heads + h) * head_dim + first;
          const auto a = static_cast<size_t>(base + (pairs == ops::RopePairs::interleaved ? 2 * i : i));
          const auto b =
              static_cast<size_t>(base + (pairs == ops::RopePairs::interleaved ? 2 * i + 1 : i + dim / 2));
          expected[a] =
              static_cast<double>(x[a]) * std::cos(angle) - static_cast<double>(x[b]) * std::sin(angle);
          expected[b] =
              static_cast<double>(x[b]) * std::cos(angle) + static_cast<double>(x[a]) * std::sin(angle);
        }
      }
    }
    check_error(relative_error(backend.get(y), expected), bound_of(backend), "rope");
  }
}

void check_elementwise(ComputeDType dtype) {
  std::mt19937_64 random(std::random_device{}());
  Backend backend(dtype);
  for (const int64_t cols : {1, 96, 2048, 12288}) {
    backend.reset();
    const int64_t rows = 19;
    const std::vector<float> a = backend.random_values(rows * cols, 4.0, random);
    const std::vector<float> b = backend.random_values(rows * cols, 1.0, random);
    std::vector<float> f(static_cast<size_t>(rows * cols));
    std::normal_distribution<float> normal;
    for (float& value : f) value = normal(random);
    const Activation y = backend.poisoned(rows, cols);
    backend.ops().swiglu(backend.put(a, cols), backend.put(b, cols), y);
    const Activation sum = backend.put(a, cols);
    backend.ops().add(backend.put(b, cols), sum);
    const Activation mixed = backend.put(a, cols);
    backend.ops().add(backend.put_floats(f, cols), mixed);
    const Floats floats = backend.put_floats(f, cols);
    backend.ops().add(backend.put_floats(f, cols), floats);
    std::vector<double> swiglu(a.size()), sums(a.size()), mixes(a.size()), doubled(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      const auto g = static_cast<double>(a[i]);
      swiglu[i] = g / (1 + std::exp(-g)) * static_cast<double>(b[i]);
      sums[i] = g + static_cast<double>(b[i]);
      mixes[i] = g + static_cast<double>(f[i]);
      doubled[i] = 2 * static_cast<double>(f[i]);
    }
    check_error(relative_error(backend.get(y), swiglu), bound_of(backend), "swiglu");
    check_error(relative_error(backend.get(sum), sums), bound_of(backend), "add");
    check_error(relative_error(backend.get(mixed), mixes), bound_of(backend), "add floats");
    check_error(relative_error(backend.get(floats), doubled), 1e-9, "add floats to floats");
    // Gathering moves bits.
    const std::vector<int32_t> order = {3, 0, 18, 3};
    const Activation gathered = backend.poisoned(4, cols);
    backend.ops().gather_rows(backend.put(a, cols), backend.put_ints(order, 1).data, gathered);
    const std::vector<float> found = backend.get(gathered);
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t from =
          static_cast<size_t>(order[i / static_cast<size_t>(cols)]) * static_cast<size_t>(cols);
      expect(found[i] == a[from + i % static_cast<size_t>(cols)], "gather_rows");
    }
  }
}

void check_embed(ComputeDType dtype, WeightFormat format) {
  std::mt19937_64 random(std::random_device{}());
  Backend backend(dtype);
  const TestWeight table = random_weight(format, 300, 6144, random);
  const std::vector<int32_t> ids = {0, 299, 17, 17, 130};
  const Activation y = backend.poisoned(5, 6144);
  backend.ops().embed(backend.put_ints(ids, 1).data, table.device, y);
  const std::vector<float> found = backend.get(y);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto value = static_cast<float>(table.value(ids[i / 6144], static_cast<int64_t>(i % 6144)));
    expect(found[i] == (backend.bf16() ? round_to_bf16(value) : value), "embed at ", i);
  }
}

/// A cache on both sides, written by both backends: the bytes must be the same.
void check_cache(KvCacheDType format, ComputeDType dtype) {
  std::mt19937_64 random(std::random_device{}());
  Backend backend(dtype);
  ModelConfig config;
  config.kv_lora_rank = 512;
  config.qk_rope_head_dim = 64;
  config.index_head_dim = 128;
  config.num_hidden_layers = 1;
  config.indexer_full = {true};
  const int64_t pages = 5;
  PagedCache host(config, format, pages);
  const int64_t bytes = host.bytes();
  const DeviceArray<uint8_t> slab(std::vector<uint8_t>(static_cast<size_t>(bytes), 0));
  const ModelCaches device = cache_views(config, host.layout(), reinterpret_cast<std::byte*>(slab.data()));
  const std::vector<int32_t> page_list = {4, 1, 2, 0, 3, -1};
  const std::vector<int32_t> positions = {0, 1, 63, 64, 127, 5, 66};
  const std::vector<int32_t> sequences = {0, 0, 0, 0, 0, 1, 1};
  const auto rows = static_cast<int64_t>(positions.size());
  std::vector<float> latent = backend.random_values(rows * 576, 2.0, random);
  std::fill_n(latent.begin(), 576, 0.0F);  // a row of zeros
  const std::vector<float> key = backend.random_values(rows * 128, 2.0, random);
  ops::RowMap host_rows{rows, positions.data(), sequences.data(), page_list.data(), 3, 128};
  ops::RowMap device_rows{rows,
                          backend.put_ints(positions, 1).data,
                          backend.put_ints(sequences, 1).data,
                          backend.put_ints(page_list, 1).data,
                          3,
                          128};
  ThreadPool pool(1);
  std::vector<std::byte> memory(size_t{16} << 20);
  ops::Arena arena(memory.data(), static_cast<int64_t>(memory.size()));
  const auto cpu = ops::cpu::make_cpu_ops(pool, Isa::portable, dtype, arena);
  const auto on_host = [](const std::vector<float>& values, int64_t cols) {
    return Activation{const_cast<float*>(values.data()), static_cast<int64_t>(values.size()) / cols, cols,
                      cols};
  };
  cpu->write_cache(on_host(latent, 576), host_rows, host.views().latent[0]);
  cpu->write_cache(on_host(key, 128), host_rows, host.views().index[0]);
  backend.ops().write_cache(backend.put(latent, 576), device_rows, device.latent[0]);
  backend.ops().write_cache(backend.put(key, 128), device_rows, device.index[0]);
  check(cudaDeviceSynchronize(), "write_cache");
  const std::vector<uint8_t> found = slab.host();
  std::vector<std::byte> expected(static_cast<size_t>(host.page_bytes()));
  for (int32_t page = 0; page < pages; ++page) {
    host.copy_out(page, expected.data());
    const bool same =
        std::memcmp(expected.data(), found.data() + page * host.page_bytes(), expected.size()) == 0;
    expect(same, "page ", page, " differs from the CPU's");
  }
}

constexpr auto kBf16 = ComputeDType::bfloat16;
constexpr auto kF32 = ComputeDType::float32;

const Register kAll[] = {
    {"norms bfloat16", [] { check_norms(kBf16); }},
    {"norms float32", [] { check_norms(kF32); }},
    {"rope bfloat16", [] { check_rope(kBf16); }},
    {"rope float32", [] { check_rope(kF32); }},
    {"elementwise bfloat16", [] { check_elementwise(kBf16); }},
    {"elementwise float32", [] { check_elementwise(kF32); }},
    {"embed bf16", [] { check_embed(kBf16, WeightFormat::bf16); }},
    {"embed fp8", [] { check_embed(kBf16, WeightFormat::fp8_block); }},
    {"embed nvfp4", [] { check_embed(kF32, WeightFormat::nvfp4); }},
    {"cache bytes bfloat16", [] { check_cache(KvCacheDType::bfloat16, kBf16); }},
    {"cache bytes bfloat16_keys", [] { check_cache(KvCacheDType::bfloat16_keys, kBf16); }},
    {"cache bytes fp8", [] { check_cache(KvCacheDType::fp8, kBf16); }},
    {"cache bytes float32", [] { check_cache(KvCacheDType::float32, kF32); }},
};

}  // namespace
}  // namespace glint::gpu
