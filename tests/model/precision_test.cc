// bfloat16, judged as the architecture notes say: never free-running. These random networks select and route
// so sharply that any rounding sends a free run elsewhere; so lists and experts are forced to those of the
// float32 run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "golden_support.h"

namespace glint::testing {
namespace {

struct Pair {
  TraceTensors exact, rounded;
};

// A float32 trace of the whole prompt, and the bfloat16 one forced by it.
Pair forced_traces(const GoldenCase& test, bool layerwise, std::optional<KvCacheDType> cache = std::nullopt) {
  const auto model = open_model(golden_checkpoint(test));
  TraceSettings options = golden_options(test);
  options.keep = 0;
  options.mtp = false;
  Pair pair;
  pair.exact = run_trace(model, options);
  const auto path = std::filesystem::temp_directory_path() / cat("glint-forced-", ::getpid(), ".safetensors");
  write_trace(path, pair.exact);
  options.dtype = ops::ComputeDType::bfloat16;
  options.kv_cache_dtype = cache;
  options.force = path;
  options.layerwise = layerwise;
  pair.rounded = run_trace(model, options);
  std::filesystem::remove(path);
  return pair;
}

// Mean over rows of KL(softmax(exact) || softmax(rounded)).
double mean_kl(const TraceTensor& exact, const TraceTensor& rounded) {
  const auto vocab = static_cast<size_t>(exact.shape[1]);
  const size_t rows = exact.floats.size() / vocab;
  double total = 0;
  for (size_t row = 0; row < rows; ++row) {
    const float* p = exact.floats.data() + row * vocab;
    const float* q = rounded.floats.data() + row * vocab;
    const auto log_sum = [vocab](const float* x) {
      const double top = static_cast<double>(*std::max_element(x, x + vocab));
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

// The mean share of the exact selection that the rounded one found, over rows where there was something to
// choose.
double mean_overlap(const TraceTensor& exact, const TraceTensor& rounded) {
  const auto cols = exact.shape[1];
  double total = 0;
  int64_t rows = 0;
  for (int64_t row = cols; row < exact.shape[0]; ++row) {
    const auto list = [&](const TraceTensor& t) { return t.ints.begin() + row * cols; };
    std::vector<int32_t> common;
    std::set_intersection(list(exact), list(exact) + cols, list(rounded), list(rounded) + cols,
                          std::back_inserter(common));
    total += static_cast<double>(common.size()) / static_cast<double>(cols);
    ++rows;
  }
  return rows == 0 ? 1 : total / static_cast<double>(rows);
}

class Bfloat16 : public ::testing::TestWithParam<const char*> {};

TEST_P(Bfloat16, EveryLayerFromExactInputIsWithinOnePerCent) {
  const Pair pair = forced_traces(golden_case(GetParam()), true);
  for (const auto& [name, exact] : pair.exact) {
    if (name.rfind("hidden.", 0) == 0) {
      const double error = relative_rms(pair.rounded.at(name).floats, exact.floats);
      std::printf("%s %s: relative RMS %.4f\n", GetParam(), name.c_str(), error);
      EXPECT_LE(error, 0.01) << name;
    } else if (name.rfind("topk.", 0) == 0) {
      const double overlap = mean_overlap(exact, pair.rounded.at(name));
      std::printf("%s %s: overlap %.4f\n", GetParam(), name.c_str(), overlap);
      EXPECT_GE(overlap, 0.99) << name;
    }
  }
}

TEST_P(Bfloat16, TheWholeModelForcedHasASmallDivergence) {
  const Pair pair = forced_traces(golden_case(GetParam()), false);
  const double divergence = mean_kl(pair.exact.at("logits"), pair.rounded.at("logits"));
  std::printf("%s: mean KL %.5f\n", GetParam(), divergence);
  EXPECT_LE(divergence, 4e-3);
  EXPECT_GT(divergence, 1e-9) << "bfloat16 that rounds nothing is not bfloat16";
}

// The served caches: bfloat16 rows with E4M3 index keys, and E4M3 rows.
struct CacheBounds {
  KvCacheDType dtype;
  double hidden, overlap, divergence;
};

TEST_P(Bfloat16, TheServedCachesStayWithinTheirBounds) {
  const CacheBounds bounds[] = {{KvCacheDType::bfloat16, 0.01, 0.95, 4e-3},
                                {KvCacheDType::fp8, 0.04, 0.95, 6e-2}};
  for (const CacheBounds& bound : bounds) {
    const std::string cache(kv_cache_dtype_name(bound.dtype));
    double hidden = 0;
    double overlap = 1;
    const Pair layers = forced_traces(golden_case(GetParam()), true, bound.dtype);
    for (const auto& [name, exact] : layers.exact) {
      const TraceTensor& rounded = layers.rounded.at(name);
      if (name.rfind("hidden.", 0) == 0)
        hidden = std::max(hidden, relative_rms(rounded.floats, exact.floats));
      if (name.rfind("topk.", 0) == 0) overlap = std::min(overlap, mean_overlap(exact, rounded));
    }
    const Pair whole = forced_traces(golden_case(GetParam()), false, bound.dtype);
    const double divergence = mean_kl(whole.exact.at("logits"), whole.rounded.at("logits"));
    std::printf("%s, cache %s: worst layer %.4f, worst overlap %.4f, mean KL %.5f\n", GetParam(),
                cache.c_str(), hidden, overlap, divergence);
    EXPECT_LE(hidden, bound.hidden) << cache;
    EXPECT_GE(overlap, bound.overlap) << cache;
    EXPECT_LE(divergence, bound.divergence) << cache;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Bfloat16, ::testing::Values("geometry", "geometry-fp8", "geometry-nvfp4"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace glint::testing
