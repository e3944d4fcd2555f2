// The device's sampler beside the CPU's: the same token for the same logits, parameters and random numbers.
#include "ops/cuda/sample.h"

#include <limits>
#include <map>

#include "engine/sampler.h"
#include "gpu_support.h"

namespace glint::gpu {
namespace {

using ops::cuda::SampleParams;

constexpr int64_t kRowsMax = 40;
constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Case {
  std::vector<float> logits;  // [rows][vocab_size]
  int64_t vocab_size = 0, rows_each = 1;
  std::vector<bool> sampleable;
  std::vector<SampleParams> params;
  std::vector<int32_t> generated;
  [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(logits.size()) / vocab_size; }
};

std::vector<int32_t> on_device(const Case& one, int64_t ahead) {
  std::vector<uint32_t> words(one.sampleable.size() / 32 + 1);
  for (size_t id = 0; id < one.sampleable.size(); ++id)
    words[id / 32] |= (one.sampleable[id] ? 1U : 0U) << id % 32;
  const DeviceArray<float> logits(one.logits);
  const DeviceArray<uint32_t> sampleable(words);
  const DeviceArray<SampleParams> params(one.params);
  const DeviceArray<int32_t> generated(one.generated);
  const DeviceArray<int32_t> tokens(std::vector<int32_t>(static_cast<size_t>(one.rows()), -77));
  // One memory for cases of any number of rows, as in a server.
  static std::map<int64_t, DeviceArray<uint8_t>> memories;
  const auto bytes = static_cast<size_t>(ops::cuda::sample_scratch_bytes(kRowsMax, one.vocab_size));
  const auto memory = memories.try_emplace(one.vocab_size, std::vector<uint8_t>(bytes)).first;
  const ops::cuda::SampleScratch scratch{.memory = memory->second.data(), .rows_max = kRowsMax};
  const ops::cuda::SampleRows rows{.logits = {logits.data(), one.rows(), one.vocab_size, one.vocab_size},
                                   .sampleable = sampleable.data(),
                                   .rows_each = one.rows_each,
                                   .params = params.data(),
                                   .generated = generated.data(),
                                   .ahead = ahead,
                                   .tokens = tokens.data()};
  std::vector<int32_t> first;
  for (int repetition = 0; repetition < repetitions(); ++repetition) {
    ops::cuda::sample(rows, scratch, nullptr);
    check(cudaDeviceSynchronize(), "sampling");
    const std::vector<int32_t> found = tokens.host();
    if (repetition == 0) first = found;
    expect(found == first, "repetition ", repetition, " gave other tokens");
  }
  expect(logits.host().size() == one.logits.size() &&
             std::memcmp(logits.host().data(), one.logits.data(), one.logits.size() * 4) == 0,
         "the logits were changed");
  return first;
}

std::vector<int32_t> on_host(const Case& one, int64_t ahead) {
  Sampler sampler(one.sampleable);
  std::vector<int32_t> tokens;
  for (int64_t r = 0; r < one.rows(); ++r) {
    const auto s = static_cast<size_t>(r / one.rows_each);
    std::vector<float> row(one.logits.begin() + r * one.vocab_size,
                           one.logits.begin() + (r + 1) * one.vocab_size);
    SamplingParams params;
    params.temperature = one.params[s].temperature;
    params.top_p = one.params[s].top_p;
    params.min_p = one.params[s].min_p;
    params.top_k = one.params[s].top_k;
    ScannedRow scanned;
    const uint64_t key = draw_key(one.params[s].seed, one.generated[s] + ahead + r % one.rows_each);
    tokens.push_back(sampler.scan(row, scanned) ? sampler.take(scanned, params, key) : -1);
  }
  return tokens;
}

/// Rows of all shapes: peaked, flat, full of ties, with what must not be taken in the highest places.
Case random_case(std::mt19937_64& random, int64_t vocab_size, int64_t sequences, int64_t rows_each) {
  Case one;
  one.vocab_size = vocab_size;
  one.rows_each = rows_each;
  one.sampleable.assign(static_cast<size_t>(vocab_size), true);
  for (int64_t id = 0; id < vocab_size; ++id) {
    if (random() % 50 == 0) one.sampleable[static_cast<size_t>(id)] = false;
  }
  one.sampleable[static_cast<size_t>(vocab_size / 2)] = true;
  std::normal_distribution<float> normal;
  for (int64_t s = 0; s < sequences; ++s) {
    const float temperatures[] = {0.0F, 0.05F, 0.6F, 1.0F, 2.0F};
    const float shares[] = {1.0F, 0.95F, 0.5F, 0.999F, 0.01F, 1e-9F};
    const int32_t counts[] = {0, 1, 2, 20, 64, 5000, static_cast<int32_t>(vocab_size), 1 << 30};
    const float least[] = {0.0F, 0.0F, 0.05F, 1.0F};
    one.params.push_back({.temperature = temperatures[random() % 5],
                          .top_p = random() % 2 == 0 ? 1.0F : shares[random() % 6],
                          .min_p = least[random() % 4],
                          .top_k = random() % 2 == 0 ? 0 : counts[random() % 8],
                          .seed = random()});
    one.generated.push_back(static_cast<int32_t>(random() % 1000));
    const float spreads[] = {0.0F, 0.01F, 1.0F, 3.0F, 12.0F};
    const float spread = spreads[random() % 5];
    const bool rounded = random() % 3 == 0;  // few distinct values
    for (int64_t i = 0; i < rows_each * vocab_size; ++i) {
      const float value = normal(random) * spread;
      one.logits.push_back(rounded ? std::round(value * 2) / 2 : value);
    }
  }
  return one;
}

void compare(const Case& one, int64_t ahead) {
  const std::vector<int32_t> found = on_device(one, ahead);
  const std::vector<int32_t> expected = on_host(one, ahead);
  for (size_t r = 0; r < found.size(); ++r) {
    const SampleParams& p = one.params[r / static_cast<size_t>(one.rows_each)];
    expect(found[r] == expected[r], "row ", r, " of ", one.vocab_size, " ids: ", found[r], ", the CPU takes ",
           expected[r], " (temperature ", p.temperature, ", top_p ", p.top_p, ", min_p ", p.min_p, ", top_k ",
           p.top_k, ")");
  }
}

void takes_the_cpus_tokens() {
  std::mt19937_64 random(1);
  int64_t rows = 0;
  for (const int64_t vocab_size : {1, 31, 4096, 4097, 16384, 154880}) {
    for (int round = 0; round < (vocab_size > 100000 ? 6 : 20); ++round) {
      const Case one = random_case(random, vocab_size, 1 + static_cast<int64_t>(random() % 13),
                                   1 + static_cast<int64_t>(random() % 3));
      compare(one, static_cast<int64_t>(random() % 3));
      rows += one.rows();
    }
  }
  note(cat("; ", rows, " rows"));
}

void tells_unusable_rows() {
  std::mt19937_64 random(2);
  const int64_t vocab_size = 9000;
  Case one = random_case(random, vocab_size, 7, 1);
  const float bad[] = {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity(), kNever};
  for (size_t r = 0; r < 7; ++r) {
    float* const row = one.logits.data() + r * static_cast<size_t>(vocab_size);
    if (r < 3) row[4500] = bad[r];  // sampleable
    if (r == 3) std::fill(row, row + vocab_size, kNever);
    if (r == 4) {  // alone what must not be taken is bad
      for (int64_t id = 0; id < vocab_size; ++id) {
        if (!one.sampleable[static_cast<size_t>(id)]) row[id] = bad[id % 3];
      }
    }
    if (r == 5) {  // a single id is left
      std::fill(row, row + vocab_size, kNever);
      row[4500] = -1e30F;
    }
  }
  compare(one, 0);
  const std::vector<int32_t> found = on_device(one, 0);
  for (size_t r = 0; r < 7; ++r) expect((found[r] < 0) == (r < 4), "row ", r, " gave ", found[r]);
  expect(found[5] == 4500, "the only id was not taken");
}

const Register kAll[] = {
    {"sampling, the CPU's tokens", takes_the_cpus_tokens},
    {"sampling, unusable rows", tells_unusable_rows},
};

}  // namespace
}  // namespace glint::gpu
