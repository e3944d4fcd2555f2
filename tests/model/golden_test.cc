// The forward pass against Hugging Face transformers, in float32; and its own invariances, bit for bit.
#include <gtest/gtest.h>

#include "base/error.h"
#include "golden_support.h"

namespace glint::testing {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

class Golden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, AgreesWithTransformersInFloat32) {
  const auto trace = run_trace(open_model(golden_checkpoint(GetParam())), golden_options(GetParam()));
  EXPECT_EQ(joined(golden_faults(GetParam(), trace)), "");
  std::printf("%s: logits within %.1e of transformers\n", GetParam().name,
              largest_logit_gap(GetParam(), trace));
}

TEST_P(Golden, AgreesWithoutIndexerTypesInTheConfig) {
  const auto trace = run_trace(open_model(golden_checkpoint(GetParam(), true)), golden_options(GetParam()));
  EXPECT_EQ(joined(golden_faults(GetParam(), trace)), "");
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, ::testing::ValuesIn(golden_cases()), [](const auto& instance) {
  std::string name = instance.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Everything that a trace holds must be the same bits.
void expect_equal_traces(const TraceTensors& a, const TraceTensors& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    EXPECT_TRUE(tensor.floats == b.at(name).floats && tensor.ints == b.at(name).ints) << what << ": " << name;
  }
}

// The last rows of the full pass and the same positions decoded one at a time through the cache.
void expect_decode_equals_pass(const TraceTensors& trace) {
  const std::vector<float>& decoded = trace.at("decode_logits").floats;
  const std::vector<float>& logits = trace.at("logits").floats;
  EXPECT_TRUE(std::equal(decoded.rbegin(), decoded.rend(), logits.rbegin()));
}

TEST(Invariance, AnyChunkThreadCountAndDecodeGiveTheSameBits) {
  for (const char* name : {"micro", "micro-fp8", "micro-nvfp4", "geometry-fp8", "geometry-nvfp4"}) {
    for (const auto dtype : {ops::ComputeDType::float32, ops::ComputeDType::bfloat16}) {
      const GoldenCase& test = golden_case(name);
      const auto model = open_model(golden_checkpoint(test));
      TraceSettings options = golden_options(test);
      options.dtype = dtype;
      const TraceTensors whole = run_trace(model, options);
      expect_decode_equals_pass(whole);
      for (const int64_t chunk : {1, 7, 64}) {
        options.chunk = chunk;
        expect_equal_traces(whole, run_trace(model, options), cat(name, " chunk ", chunk));
      }
      options.chunk = 0;
      for (const int threads : {1, 3}) {
        options.threads = threads;
        expect_equal_traces(whole, run_trace(model, options), cat(name, " threads ", threads));
      }
    }
  }
}

TEST(Invariance, ChunksAgreePastTheRealSelectionSize) {
  const GoldenCase& test = golden_case("longtopk");
  const auto model = open_model(golden_checkpoint(test));
  TraceSettings options = golden_options(test);
  const TraceTensors whole = run_trace(model, options);
  expect_decode_equals_pass(whole);
  options.chunk = 64;
  expect_equal_traces(whole, run_trace(model, options), "chunk 64");
}

TEST(Invariance, EveryInstructionSetOfThisMachineAgreesWithTheGolden) {
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (isa > best_isa()) {
      GTEST_LOG_(INFO) << "skipped " << isa_name(isa) << ": this machine has only " << isa_name(best_isa());
      continue;
    }
    for (const char* name : {"micro", "micro-fp8", "micro-nvfp4"}) {
      TraceSettings options = golden_options(golden_case(name));
      options.isa = isa;
      const auto trace = run_trace(open_model(golden_checkpoint(golden_case(name))), options);
      EXPECT_EQ(joined(golden_faults(golden_case(name), trace)), "") << isa_name(isa) << " " << name;
    }
  }
}

}  // namespace
}  // namespace glint::testing
