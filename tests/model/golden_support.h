// Golden cases: their stand-in checkpoints, traces, and how a trace is compared with what transformers gave.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/trace.h"

namespace glint::testing {

struct GoldenCase {
  const char* name;    // a folder of tests/data/goldens
  const char* format;  // bf16, fp8 or nvfp4
  uint64_t weights_seed;
};

/// micro, geometry and longtopk, the first two in all three forms.
const std::vector<GoldenCase>& golden_cases();
const GoldenCase& golden_case(const std::string& name);

std::filesystem::path golden_file(const GoldenCase& test);

/// The case's checkpoint in a folder that lives as long as the process. With `without_indexer_types` the key
/// is taken out of config.json.
std::filesystem::path golden_checkpoint(const GoldenCase& test, bool without_indexer_types = false);

/// The model of a folder; `change` may break a rule or a weight before it is built.
std::shared_ptr<const Model> open_model(
    const std::filesystem::path& folder,
    const std::function<void(ForwardRules&, ModelWeights&)>& change = nullptr);

/// float32, the golden's prompt and rows, MTP on.
TraceSettings golden_options(const GoldenCase& test);

/// What of a float32 trace is out of the golden's bounds, one line each; empty if all is well. Logits
/// within 2.5e-4, hidden states within 1e-4 of their own RMS, expert weights within 1e-4, lists equal where
/// topk_gap > 1e-5, experts and drafts equal.
std::vector<std::string> golden_faults(const GoldenCase& test, const TraceTensors& trace);

/// The largest absolute difference of the trace's logits from the golden's.
double largest_logit_gap(const GoldenCase& test, const TraceTensors& trace);

/// Values of a float32 or int32 tensor of a safetensors file.
std::vector<float> read_floats(const SafetensorsFile& file, const std::string& name);
std::vector<int32_t> read_ints(const SafetensorsFile& file, const std::string& name);

/// sqrt(mean((a - b)^2) / mean(b^2)).
double relative_rms(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace glint::testing
