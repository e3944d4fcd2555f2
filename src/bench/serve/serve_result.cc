#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "bench/serve/serve_report.h"
#include "text/python_json.h"

namespace glint::bench {

OrderedJson result_head(const BenchServeOptions& options, const std::string& date,
                        const OrderedJson& tokenizer_id) {
  OrderedJson head;
  head["date"] = date;
  head["endpoint_type"] = options.backend;
  head["backend"] = options.backend;
  head["label"] = nullptr;
  if (!options.result.label.empty()) head["label"] = options.result.label;
  head["model_id"] = options.model;
  head["tokenizer_id"] = tokenizer_id;
  head["num_prompts"] = options.num_prompts;
  for (const auto& [key, value] : options.result.metadata) head[key] = value;
  const Traffic& traffic = options.traffic;
  head["request_rate"] = "inf";
  if (!std::isinf(traffic.request_rate)) head["request_rate"] = traffic.request_rate;
  head["burstiness"] = traffic.burstiness;
  if (std::isinf(traffic.burstiness)) head["burstiness"] = "inf";
  head["max_concurrency"] = nullptr;
  if (options.max_concurrency) head["max_concurrency"] = *options.max_concurrency;
  if (!traffic.ramp_up_strategy.empty()) {
    head["ramp_up_strategy"] = traffic.ramp_up_strategy;
    head["ramp_up_start_rps"] = traffic.ramp_up_start_rps;
    head["ramp_up_end_rps"] = traffic.ramp_up_end_rps;
  }
  return head;
}

std::string result_file_name(const BenchServeOptions& options, const std::string& date) {
  std::string name = options.result.file_name;
  if (name.empty()) {
    const Traffic& traffic = options.traffic;
    const std::string label = options.result.label.empty() ? options.backend : options.result.label;
    const std::string concurrency =
        options.max_concurrency ? cat("-concurrency", *options.max_concurrency) : "";
    const std::string model = options.model.substr(options.model.rfind('/') + 1);
    const std::string rate =
        traffic.ramp_up_strategy.empty()
            ? cat(std::isinf(traffic.request_rate) ? "inf" : python_float_repr(traffic.request_rate), "qps")
            : cat("ramp-up-", traffic.ramp_up_strategy, "-", traffic.ramp_up_start_rps, "qps-",
                  traffic.ramp_up_end_rps, "qps");
    name = cat(label, "-", rate, concurrency, "-", model, "-", date, ".json");
  }
  return options.result.folder.empty() ? name
                                       : (std::filesystem::path(options.result.folder) / name).string();
}

void save_result(const BenchServeOptions& options, OrderedJson result, const std::string& date) {
  if (!options.result.save && !options.result.append) return;
  if (!options.result.save_detailed) {
    for (const char* key :
         {"input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors"}) {
      result.erase(key);
    }
  }
  const std::string name = result_file_name(options, date);
  std::error_code error;
  if (!options.result.folder.empty()) std::filesystem::create_directories(options.result.folder, error);
  const bool begun = options.result.append && std::filesystem::exists(name, error) &&
                     std::filesystem::file_size(name, error) > 0;
  std::ofstream file(name, options.result.append ? std::ios::app : std::ios::trunc);
  file << (begun ? "\n" : "") << python_dumps(result);
  file.close();
  if (!file) fail(ErrorKind::io, "cannot write the result to ", name);
}

}  // namespace glint::bench
