// The goldens on the GPU through the same Model code: float32 against transformers' numbers; bfloat16 layer
// by layer and forced, with the architecture notes' bounds. And the CPU's own trace of nano beside it.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "../model/golden_support.h"
#include "engine/device_choice.h"
#include "harness.h"

namespace glint::gpu {
namespace {

using testing::GoldenCase;

constexpr DeviceChoice kGpu{.kind = DeviceKind::gpu};

struct Bounds {
  const char* what;
  KvCacheDType cache;
  bool fp8_activations;
  double hidden, overlap, divergence;
};

/// Mean over rows of KL(softmax(exact) || softmax(rounded)).
double mean_kl(const TraceTensor& exact, const TraceTensor& rounded) {
  const auto vocab = static_cast<size_t>(exact.shape[1]);
  const size_t rows = exact.floats.size() / vocab;
  double total = 0;
  for (size_t row = 0; row < rows; ++row) {
    const float* p = exact.floats.data() + row * vocab;
    const float* q = rounded.floats.data() + row * vocab;
    const auto log_sum = [vocab](const float* x) {
      const auto top = static_cast<double>(*std::max_element(x, x + vocab));
      double sum = 0;
      for (size_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(x[i]) - top);
      return top + std::log(sum);
    };
    const double p_sum = log_sum(p);
    const double q_sum = log_sum(q);
    for (size_t i = 0; i < vocab; ++i) {
      const double log_p = static_cast<double>(p[i]) - p_sum;
      total += std::exp(log_p) * (log_p - (static_cast<double>(q[i]) - q_sum));
    }
  }
  return total / static_cast<double>(rows);
}

double mean_overlap(const TraceTensor& exact, const TraceTensor& rounded) {
  const auto cols = exact.shape[1];
  double total = 0;
  int64_t rows = 0;
  for (int64_t row = cols; row < exact.shape[0]; ++row, ++rows) {
    const auto list = [&](const TraceTensor& t) { return t.ints.begin() + row * cols; };
    std::vector<int32_t> common;
    std::set_intersection(list(exact), list(exact) + cols, list(rounded), list(rounded) + cols,
                          std::back_inserter(common));
    total += static_cast<double>(common.size()) / static_cast<double>(cols);
  }
  return rows == 0 ? 1 : total / static_cast<double>(rows);
}

void check_float32(const std::string& name) {
  const GoldenCase& test = testing::golden_case(name);
  const auto model = testing::open_model(testing::golden_checkpoint(test));
  TraceSettings options = testing::golden_options(test);
  options.make_device = trace_devices(kGpu, {});
  const TraceTensors trace = run_trace(model, options);
  std::string faults;
  for (const std::string& fault : testing::golden_faults(test, trace)) faults += fault + "; ";
  note(cat("logits within ", testing::largest_logit_gap(test, trace)));
  expect(faults.empty(), faults);
  options.chunk = 7;
  if (name == "longtopk") options.chunk = 500;
  const TraceTensors chunked = run_trace(model, options);
  for (const auto& [key, tensor] : trace) {
    expect(tensor.floats == chunked.at(key).floats && tensor.ints == chunked.at(key).ints, "in chunks: ", key,
           " differs");
  }
}

void check_reduced(const std::string& name, const Bounds& bounds) {
  const GoldenCase& test = testing::golden_case(name);
  const auto model = testing::open_model(testing::golden_checkpoint(test));
  TraceSettings options = testing::golden_options(test);
  options.keep = 0;
  options.mtp = false;
  static std::map<std::string, TraceTensors> known;
  if (!known.contains(name)) known[name] = run_trace(model, options);  // the CPU's float32
  const TraceTensors& exact = known[name];
  const auto path = std::filesystem::temp_directory_path() / cat("glint-gpu-", ::getpid(), ".safetensors");
  write_trace(path, exact);
  options.make_device = trace_devices(kGpu, {.fp8_activations = bounds.fp8_activations});
  options.dtype = ops::ComputeDType::bfloat16;
  options.kv_cache_dtype = bounds.cache;
  options.force = path;
  options.layerwise = true;
  const TraceTensors layers = run_trace(model, options);
  options.layerwise = false;
  const TraceTensors whole = run_trace(model, options);
  options.make_device =
      trace_devices(kGpu, {.fp8_activations = bounds.fp8_activations, .batch_invariant = true});
  const TraceTensors invariant = run_trace(model, options);
  options.chunk = name == "longtopk" ? 500 : 7;
  const TraceTensors chunked = run_trace(model, options);
  std::filesystem::remove(path);
  double hidden = 0;
  double overlap = 1;
  for (const auto& [key, tensor] : exact) {
    if (key.rfind("hidden.", 0) == 0) {
      hidden = std::max(hidden, testing::relative_rms(layers.at(key).floats, tensor.floats));
    } else if (key.rfind("topk.", 0) == 0) {
      overlap = std::min(overlap, mean_overlap(tensor, layers.at(key)));
    }
  }
  const double divergence = mean_kl(exact.at("logits"), whole.at("logits"));
  note(cat("worst layer ", hidden, ", worst overlap ", overlap, ", mean KL ", divergence));
  expect(hidden <= bounds.hidden, "relative RMS ", hidden, " of a layer, at most ", bounds.hidden);
  expect(overlap >= bounds.overlap, "overlap ", overlap, ", at least ", bounds.overlap);
  expect(divergence <= bounds.divergence && divergence > 1e-9, "mean KL ", divergence, ", at most ",
         bounds.divergence);
  // In the batch-invariant mode chunks change nothing.
  for (const auto& [key, tensor] : invariant) {
    expect(tensor.floats == chunked.at(key).floats && tensor.ints == chunked.at(key).ints, "in chunks: ", key,
           " differs");
  }
}

std::vector<Register> all() {
  std::vector<Register> tests;
  for (const char* name :
       {"micro", "micro-fp8", "micro-nvfp4", "geometry", "geometry-fp8", "geometry-nvfp4", "longtopk"}) {
    tests.emplace_back(cat("golden float32 ", name), [name] { check_float32(name); });
  }
  const Bounds bf16{"bfloat16", KvCacheDType::bfloat16_keys, false, 0.01, 0.99, 4e-3};
  const Bounds served{"served cache", KvCacheDType::bfloat16, false, 0.01, 0.95, 4e-3};
  const Bounds fp8_cache{"fp8 cache", KvCacheDType::fp8, false, 0.04, 0.95, 6e-2};
  const Bounds fp8{"fp8 activations", KvCacheDType::bfloat16, true, 0.08, 0.95, 0.25};
  const Bounds both{"fp8 activations and cache", KvCacheDType::fp8, true, 0.08, 0.95, 0.25};
  for (const char* name : {"geometry", "geometry-fp8", "geometry-nvfp4", "longtopk"}) {
    for (const Bounds& bounds : {bf16, served, fp8_cache}) {
      tests.emplace_back(cat("golden ", bounds.what, " ", name),
                         [name, bounds] { check_reduced(name, bounds); });
    }
  }
  for (const Bounds& bounds : {fp8, both}) {
    tests.emplace_back(cat("golden ", bounds.what, " geometry-fp8"),
                       [bounds] { check_reduced("geometry-fp8", bounds); });
  }
  return tests;
}

const std::vector<Register> kAll = all();

}  // namespace
}  // namespace glint::gpu
