// Products with weights in every format: against float64 sums, and the rule that a row never depends on
// others.
#include "gpu_support.h"

namespace glint::gpu {
namespace {

constexpr int64_t kSamples = 3000;

struct Case {
  int64_t rows, cols;
};
const Case kCases[] = {{2048, 6144}, {16384, 2048}, {576, 6144}, {6144, 16384}, {12288, 6144},
                       {4096, 2048}, {128, 6144},   {32, 6144},  {256, 6144},   {6144, 2048},
                       {40, 96},     {24, 48},      {130, 272},  {96, 256},     {257, 416}};

std::vector<double> as_doubles(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}

/// Some outputs of y, and what they should be.
double sampled_error(const std::vector<float>& y, const std::vector<double>& x, const TestWeight& w,
                     int64_t m, std::mt19937_64& random) {
  const int64_t n = w.host.rows;
  const int64_t samples = std::min(kSamples, m * n);
  std::vector<int64_t> where(static_cast<size_t>(samples));
  for (int64_t& at : where) at = static_cast<int64_t>(random() % static_cast<uint64_t>(m * n));
  std::vector<float> found(where.size());
  std::vector<double> expected(where.size());
  parallel(samples, [&](int64_t i) {
    const int64_t at = where[static_cast<size_t>(i)];
    double sum = 0;
    for (int64_t k = 0; k < w.host.cols; ++k) {
      sum += x[static_cast<size_t>(at / n * w.host.cols + k)] * w.value(at % n, k);
    }
    expected[static_cast<size_t>(i)] = sum;
    found[static_cast<size_t>(i)] = y[static_cast<size_t>(at)];
  });
  return relative_error(found, expected);
}

/// `invariant`: the batch-invariant mode, in which a row's bits never depend on others.
void check_linear(ComputeDType dtype, WeightFormat format, bool fp8_activations_on, bool invariant) {
  std::random_device seed;
  std::mt19937_64 random(seed());
  ops::cuda::CudaOptions options;
  options.fp8_activations = fp8_activations_on;
  options.batch_invariant = invariant;
  Backend backend(dtype, options);
  const bool quantized =
      dtype == ComputeDType::bfloat16 && format == WeightFormat::fp8_block && fp8_activations_on;
  double worst = 0;
  double worst_float = 0;
  double worst_quantisation = 0;
  size_t other = 0;
  size_t all_values = 0;
  for (const Case& shape : kCases) {
    if (format == WeightFormat::nvfp4 && shape.cols % 16 != 0) continue;
    if (small_shapes() && shape.rows * shape.cols > (int64_t{1} << 20)) continue;
    const bool slow = !quantized && (dtype == ComputeDType::float32 || format == WeightFormat::fp8_block);
    if (slow && shape.rows * shape.cols > (int64_t{16} << 20)) continue;
    const TestWeight w = random_weight(format, shape.rows, shape.cols, random);
    constexpr int64_t kMost = 300;
    const std::vector<float> all = backend.random_values(kMost * shape.cols, 1.0, random);
    std::vector<float> alone;
    for (const int64_t m : {int64_t{1}, int64_t{3}, int64_t{8}, int64_t{9}, int64_t{17}, int64_t{33},
                            int64_t{64}, int64_t{130}, kMost}) {
      backend.reset();
      const std::vector<float> x(all.begin(), all.begin() + m * shape.cols);
      const Activation in = backend.put(x, shape.cols);
      const Activation y = backend.poisoned(m, shape.rows);
      const Floats sums = backend.poisoned_floats(m, shape.rows);
      backend.ops().linear(in, w.device, y);
      backend.ops().linear(in, w.device, sums);
      const std::vector<float> found = backend.get(y);
      const std::vector<float> found_sums = backend.get(sums);
      for (const float value : found_sums) expect(std::isfinite(value), "an output was not written");
      for (const float value : found) expect(std::isfinite(value), "an output was not written");
      const std::vector<double> exact_x = quantized ? fp8_activations(x, shape.cols) : as_doubles(x);
      const double error = sampled_error(found, exact_x, w, m, random);
      const double float_error = sampled_error(found_sums, exact_x, w, m, random);
      worst = std::max(worst, error);
      worst_float = std::max(worst_float, float_error);
      if (quantized) {
        worst_quantisation = std::max(worst_quantisation, sampled_error(found, as_doubles(x), w, m, random));
      }
      expect(error < (backend.bf16() ? 0x1p-8 : 2e-6), "M ", m, " N ", shape.rows, " K ", shape.cols,
             ": error ", error);
      // Hopper's FP8 instruction keeps fewer bits of a sum.
      // Long sums stay in its accumulators, which round towards zero.
      const double float_bound = !invariant ? (quantized ? 1e-3 : 1e-4) : backend.bf16() ? 2e-5 : 2e-6;
      expect(float_error < float_bound, "M ", m, " N ", shape.rows, " K ", shape.cols, " float32: error ",
             float_error);
      // The first row is the same whatever came with it.
      const std::vector<float> first(found_sums.begin(), found_sums.begin() + shape.rows);
      if (alone.empty()) alone = first;
      if (invariant || m <= 32) {
        expect_same_bits(alone, first, cat("row 0 of ", m, ", N ", shape.rows, " K ", shape.cols));
      } else {
        for (size_t i = 0; i < first.size(); ++i) other += first[i] != alone[i];
        all_values += first.size();
      }
      if (invariant && m == kMost) {
        // The last row alone, and everything again.
        backend.reset();
        const std::vector<float> last_x(x.end() - shape.cols, x.end());
        const Floats last = backend.poisoned_floats(1, shape.rows);
        backend.ops().linear(backend.put(last_x, shape.cols), w.device, last);
        expect_same_bits(backend.get(last),
                         std::vector<float>(found_sums.end() - shape.rows, found_sums.end()), "the last row");
      }
      if (m == 9 || m == 130) {
        for (int round = 0; round < repetitions(); ++round) {
          backend.reset();
          const Activation again = backend.put(x, shape.cols);
          const Activation out = backend.poisoned(m, shape.rows);
          backend.ops().linear(again, w.device, out);
          expect_same_bits(backend.get(out), found, "a repetition");
        }
      }
    }
  }
  note(cat("worst error ", worst, ", float32 sums ", worst_float));
  if (all_values > 0)
    note(cat("; of row 0 with more than 32 rows ",
             100.0 * static_cast<double>(other) / static_cast<double>(all_values),
             " % of the float32 sums have other bits than alone"));
  if (quantized) {
    note(cat("; against unquantised activations ", worst_quantisation));
    // Half a step of E4M3 is at most 1 / 16 of a value.
    expect(worst_quantisation < 0.0625, "quantised activations are ", worst_quantisation, " off");
  }
}

/// Tiles beyond a wave, in the default mode: all of them are right, and a row has the same bits in any place,
/// in any number of rows above few, and in every replay of a graph.
void check_many_rows(WeightFormat format) {
  std::mt19937_64 random(std::random_device{}());
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  {
    Backend backend(ComputeDType::bfloat16, {}, stream);
    const int64_t shapes[][3] = {{4400, 1100, 288}, {4225, 2060, 160}, {300, 16384, 96}, {640, 4001, 64}};
    for (const auto& [m, n, k] : shapes) {
      backend.reset();
      const TestWeight w = random_weight(format, n, k, random);
      const std::vector<float> x = backend.random_values(m * k, 1.0, random);
      const Activation in = backend.put(x, k);
      const Floats y = backend.poisoned_floats(m, n);
      backend.ops().linear(in, w.device, y);
      const std::vector<float> found = backend.get(y);
      for (const float value : found) expect(std::isfinite(value), "an output was not written");
      const std::vector<double> exact =
          format == WeightFormat::fp8_block ? fp8_activations(x, k) : as_doubles(x);
      const double error = sampled_error(found, exact, w, m, random);
      expect(error < (format == WeightFormat::fp8_block ? 1e-3 : 1e-4), "M ", m, " N ", n, ": error ", error);

      std::vector<float> turned_x;
      std::vector<float> turned_y;
      for (int64_t row = m - 1; row >= 0; --row) {
        turned_x.insert(turned_x.end(), x.begin() + row * k, x.begin() + (row + 1) * k);
        turned_y.insert(turned_y.end(), found.begin() + row * n, found.begin() + (row + 1) * n);
      }
      for (const int64_t rows : {m, int64_t{77}}) {
        const ops::Arena::Scope scope(backend.arena());
        const Floats out = backend.poisoned_floats(rows, n);
        backend.ops().linear(backend.put({turned_x.begin(), turned_x.begin() + rows * k}, k), w.device, out);
        expect_same_bits(backend.get(out), {turned_y.begin(), turned_y.begin() + rows * n},
                         cat(rows, " rows in other places, M ", m, " N ", n));
      }

      const Activation halves = backend.poisoned(m, n);
      check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
      backend.ops().linear(in, w.device, halves);
      cudaGraph_t graph = nullptr;
      check(cudaStreamEndCapture(stream, &graph), "capture");
      cudaGraphExec_t run = nullptr;
      check(cudaGraphInstantiate(&run, graph, 0), "graph");
      std::vector<float> first;
      for (int round = 0; round < 30; ++round) {
        check(cudaMemsetAsync(halves.data, 0xFF, static_cast<size_t>(m * n * 2), stream), "cudaMemset");
        check(cudaGraphLaunch(run, stream), "a replay");
        const std::vector<float> again = backend.get(halves);
        if (round == 0) first = again;
        expect_same_bits(again, first, "a replay");
      }
      cudaGraphExecDestroy(run);
      cudaGraphDestroy(graph);
      std::vector<float> rounded(found);
      for (float& value : rounded) value = round_to_bf16(value);
      expect_same_bits(first, rounded, "bfloat16 sums");
    }
  }
  cudaStreamDestroy(stream);
}

void check_absorbed(ComputeDType dtype, WeightFormat format, int64_t heads, int64_t nope, int64_t rope,
                    int64_t v, int64_t kv_lora) {
  std::mt19937_64 random(std::random_device{}());
  Backend backend(dtype);
  const TestWeight kv_b = random_weight(format, heads * (nope + v), kv_lora, random);
  const int64_t element = backend.bf16() ? 2 : 4;
  const DeviceArray<uint8_t> laid_out(
      std::vector<uint8_t>(static_cast<size_t>(kv_b.host.rows * kv_lora * element)));
  ops::cuda::absorbed_layout(kv_b.device, heads, nope, v, dtype, laid_out.data(), nullptr);
  check(cudaDeviceSynchronize(), "absorbed_layout");
  const Weight absorbed{.format = backend.bf16() ? WeightFormat::bf16 : WeightFormat::f32,
                        .rows = kv_b.host.rows,
                        .cols = kv_lora,
                        .data = laid_out.data()};
  const auto decoded = [&](int64_t row, int64_t col) {
    const auto value = static_cast<float>(kv_b.value(row, col));
    return static_cast<double>(backend.bf16() ? round_to_bf16(value) : value);
  };
  for (const int64_t m : {1, 5, 40, 130}) {
    backend.reset();
    const std::vector<float> q = backend.random_values(m * heads * (nope + rope), 1.0, random);
    const std::vector<float> o = backend.random_values(m * heads * kv_lora, 1.0, random);
    const Activation y = backend.poisoned(m, heads * (kv_lora + rope));
    const Activation out = backend.poisoned(m, heads * v);
    const Activation q_in = backend.put(q, heads * (nope + rope));
    const Activation o_in = backend.put(o, heads * kv_lora);
    backend.ops().absorb_query(q_in, absorbed, heads, nope, rope, v, y);
    backend.ops().expand_value(o_in, absorbed, heads, nope, v, out);
    const std::vector<float> found_q = backend.get(y);
    const std::vector<float> found_v = backend.get(out);
    std::vector<double> expected_q(found_q.size());
    std::vector<double> expected_v(found_v.size());
    parallel(m * heads, [&](int64_t i) {
      const int64_t head = i % heads;
      const int64_t row = i / heads;
      const float* in = q.data() + (row * heads + head) * (nope + rope);
      double* target = expected_q.data() + (row * heads + head) * (kv_lora + rope);
      for (int64_t c = 0; c < kv_lora; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < nope; ++k)
          sum += static_cast<double>(in[k]) * decoded(head * (nope + v) + k, c);
        target[c] = sum;
      }
      for (int64_t k = 0; k < rope; ++k) target[kv_lora + k] = static_cast<double>(in[nope + k]);
      const float* latent = o.data() + (row * heads + head) * kv_lora;
      for (int64_t c = 0; c < v; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < kv_lora; ++k) {
          sum += static_cast<double>(latent[k]) * decoded(head * (nope + v) + nope + c, k);
        }
        expected_v[static_cast<size_t>((row * heads + head) * v + c)] = sum;
      }
    });
    const double bound = backend.bf16() ? 3e-3 : 2e-6;
    const double q_error = relative_error(found_q, expected_q);
    const double v_error = relative_error(found_v, expected_v);
    expect(q_error < bound && v_error < bound, "M ", m, ": errors ", q_error, " and ", v_error);
    if (m == 130) note(cat("errors ", q_error, " and ", v_error));
  }
}

const Register kAll[] = {
    {"linear default bfloat16 x bf16",
     [] { check_linear(ComputeDType::bfloat16, WeightFormat::bf16, true, false); }},
    {"linear default fp8 x fp8",
     [] { check_linear(ComputeDType::bfloat16, WeightFormat::fp8_block, true, false); }},
    {"linear default bfloat16 x nvfp4",
     [] { check_linear(ComputeDType::bfloat16, WeightFormat::nvfp4, true, false); }},
    {"many rows bf16", [] { check_many_rows(WeightFormat::bf16); }},
    {"many rows fp8", [] { check_many_rows(WeightFormat::fp8_block); }},
    {"many rows nvfp4", [] { check_many_rows(WeightFormat::nvfp4); }},
    {"linear bfloat16 x bf16", [] { check_linear(ComputeDType::bfloat16, WeightFormat::bf16, true, true); }},
    {"linear fp8 x fp8", [] { check_linear(ComputeDType::bfloat16, WeightFormat::fp8_block, true, true); }},
    {"linear bfloat16 x nvfp4",
     [] { check_linear(ComputeDType::bfloat16, WeightFormat::nvfp4, true, true); }},
    {"linear bfloat16 x fp8",
     [] { check_linear(ComputeDType::bfloat16, WeightFormat::fp8_block, false, true); }},
    {"linear float32 x bf16", [] { check_linear(ComputeDType::float32, WeightFormat::bf16, true, true); }},
    {"linear float32 x fp8",
     [] { check_linear(ComputeDType::float32, WeightFormat::fp8_block, true, true); }},
    {"linear float32 x nvfp4", [] { check_linear(ComputeDType::float32, WeightFormat::nvfp4, true, true); }},
    {"absorbed bfloat16 fp8 64 heads",
     [] { check_absorbed(ComputeDType::bfloat16, WeightFormat::fp8_block, 64, 192, 64, 256, 512); }},
    {"absorbed bfloat16 bf16 8 heads",
     [] { check_absorbed(ComputeDType::bfloat16, WeightFormat::bf16, 8, 192, 64, 256, 512); }},
    {"absorbed bfloat16 small",
     [] { check_absorbed(ComputeDType::bfloat16, WeightFormat::fp8_block, 3, 24, 16, 40, 32); }},
    {"absorbed float32",
     [] { check_absorbed(ComputeDType::float32, WeightFormat::fp8_block, 4, 192, 64, 256, 512); }},
};

}  // namespace
}  // namespace glint::gpu
