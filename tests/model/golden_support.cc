#include "golden_support.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/make_checkpoint.h"

namespace glint::testing {

namespace {

// Where all checkpoints of this process lie; removed at its end.
class ScratchFolder {
 public:
  ScratchFolder()
      : path_(std::filesystem::temp_directory_path() / ("glint-golden-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

template <class T>
std::vector<T> read_values(const SafetensorsFile& file, const std::string& name) {
  const auto bytes = file.data(file.at(name));
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

double rms(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

/// The largest |a - b|; infinity for NaN.
double largest_gap(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double gap = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::isnan(gap) ? INFINITY : std::max(largest, gap);
  }
  return largest;
}

double bound_of(const std::string& name, const std::vector<float>& golden) {
  if (name.find("logits") != std::string::npos) return 2.5e-4;
  if (name.rfind("expert_weights.", 0) == 0) return 1e-4;
  return 1e-4 * rms(golden);
}

void compare_lists(const SafetensorsFile& golden, const std::string& name, const TraceTensor& mine,
                   std::vector<std::string>& faults) {
  const std::vector<int32_t> lists = read_ints(golden, name);
  const std::vector<float> gaps = read_floats(golden, "topk_gap" + name.substr(name.find('.')));
  const auto cols = static_cast<int64_t>(lists.size() / gaps.size());
  for (size_t row = 0; row < gaps.size(); ++row) {
    const auto at = static_cast<int64_t>(row) * cols;
    if (gaps[row] > 1e-5F &&
        !std::equal(lists.begin() + at, lists.begin() + at + cols, mine.ints.begin() + at)) {
      faults.push_back(cat(name, ": row ", row, " differs with a gap of ", gaps[row]));
    }
  }
}

void compare_tensor(const SafetensorsFile& golden, const TensorEntry& entry, const TraceTensor& mine,
                    std::vector<std::string>& faults) {
  if (mine.shape != entry.shape || mine.dtype != entry.dtype) {
    faults.push_back(
        cat(entry.name, ": shape ", shape_text(mine.shape), ", golden ", shape_text(entry.shape)));
  } else if (entry.dtype == Dtype::f32) {
    const std::vector<float> values = read_floats(golden, entry.name);
    const double gap = largest_gap(mine.floats, values);
    const double bound = bound_of(entry.name, values);
    if (!(gap <= bound)) faults.push_back(cat(entry.name, ": off by ", gap, ", allowed ", bound));
  } else if (entry.name.rfind("topk.", 0) == 0) {
    compare_lists(golden, entry.name, mine, faults);
  } else if (read_ints(golden, entry.name) != mine.ints) {
    faults.push_back(cat(entry.name, ": differs"));
  }
}

std::string without_key(const std::string& config_text, const char* key) {
  Json config = parse_json(config_text, "config.json");
  config.erase(key);
  return config.dump(2);
}

}  // namespace

const std::vector<GoldenCase>& golden_cases() {
  static const std::vector<GoldenCase> cases = {{"micro", "bf16", 1},        {"micro-fp8", "fp8", 1},
                                                {"micro-nvfp4", "nvfp4", 1}, {"geometry", "bf16", 2},
                                                {"geometry-fp8", "fp8", 2},  {"geometry-nvfp4", "nvfp4", 2},
                                                {"longtopk", "bf16", 3}};
  return cases;
}

const GoldenCase& golden_case(const std::string& name) {
  for (const GoldenCase& test : golden_cases()) {
    if (name == test.name) return test;
  }
  fail(ErrorKind::internal, "no golden case ", name);
}

std::filesystem::path golden_file(const GoldenCase& test) {
  const char* elsewhere = std::getenv("GLINT_TEST_DATA");  // a carried program finds its data there
  return std::filesystem::path(elsewhere != nullptr ? elsewhere : GLINT_TEST_DATA) / "goldens" / test.name /
         "golden.safetensors";
}

std::filesystem::path golden_checkpoint(const GoldenCase& test, bool without_indexer_types) {
  static const ScratchFolder scratch;
  static std::map<std::string, std::filesystem::path> made;
  std::filesystem::path& folder = made[cat(test.name, without_indexer_types ? "-no-types" : "")];
  if (!folder.empty()) return folder;
  folder = scratch.path() / cat(test.name, without_indexer_types ? "-no-types" : "");
  MakeCheckpointOptions options;
  options.config_text = read_file(golden_file(test).parent_path() / "config.json");
  if (without_indexer_types) options.config_text = without_key(options.config_text, "indexer_types");
  options.config_name = "config.json";
  options.seed = test.weights_seed;
  options.format = parse_format(test.format);
  options.folder = folder;
  options.shard_bytes = 50'000'000;
  make_checkpoint(options);
  return folder;
}

std::shared_ptr<const Model> open_model(const std::filesystem::path& folder,
                                        const std::function<void(ForwardRules&, ModelWeights&)>& change) {
  const auto checkpoint = Checkpoint::open(folder);
  ForwardRules rules = rules_of(checkpoint->config());
  ModelWeights weights = bind_weights(checkpoint);
  if (change) change(rules, weights);
  return std::make_shared<const Model>(std::move(weights), std::move(rules));
}

TraceSettings golden_options(const GoldenCase& test) {
  TraceSettings options;
  options.input_ids = read_input_ids(golden_file(test));
  options.dtype = ops::ComputeDType::float32;
  options.keep = SafetensorsFile(golden_file(test)).at("logits").shape[0];
  options.mtp = true;
  return options;
}

std::vector<std::string> golden_faults(const GoldenCase& test, const TraceTensors& trace) {
  const SafetensorsFile golden(golden_file(test));
  std::vector<std::string> faults;
  for (const TensorEntry& entry : golden.table().tensors()) {
    if (entry.name.rfind("topk_gap.", 0) == 0) continue;
    const auto mine = trace.find(entry.name);
    if (mine == trace.end()) {
      faults.push_back(entry.name + ": missing");
    } else {
      compare_tensor(golden, entry, mine->second, faults);
    }
  }
  return faults;
}

double largest_logit_gap(const GoldenCase& test, const TraceTensors& trace) {
  const SafetensorsFile golden(golden_file(test));
  return largest_gap(trace.at("logits").floats, read_floats(golden, "logits"));
}

std::vector<float> read_floats(const SafetensorsFile& file, const std::string& name) {
  return read_values<float>(file, name);
}

std::vector<int32_t> read_ints(const SafetensorsFile& file, const std::string& name) {
  return read_values<int32_t>(file, name);
}

double relative_rms(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> gap(a.size());
  for (size_t i = 0; i < a.size(); ++i) gap[i] = a[i] - b[i];
  return rms(gap) / rms(b);
}

}  // namespace glint::testing
