// What the Python checks of the benchmark's client ask: one JSON object on standard input, one answer on
// standard output. {"op": "draws" | "random" | "prefix_repetition" | "file" | "arrivals" | "table" |
// "speculation", ...}.
#include <iostream>
#include <iterator>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "bench/serve/arrivals.h"
#include "bench/serve/datasets.h"
#include "bench/serve/random_numbers.h"
#include "bench/serve/serve_report.h"

namespace glint::bench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double number_or_infinity(const Json& value) {
  return value.is_null() ? kInfinity : value.get<double>();
}

Json draws(const Json& ask) {
  const std::string kind = ask["kind"];
  Json result = Json::array();
  NumpyGenerator generator(ask["seed"].get<uint64_t>());
  NumpyLegacyRandom legacy(ask["seed"].get<uint32_t>());
  PythonRandom python(ask["seed"].get<uint64_t>());
  for (const Json& call : ask["calls"]) {
    if (kind == "integers") {
      result.push_back(generator.integers(call[0], call[1], call[2]));
    } else if (kind == "randint") {
      result.push_back(legacy.randint(call[0], call[1], call[2]));
    } else if (kind == "gamma") {
      std::vector<double> values(call[2].get<size_t>());
      for (double& value : values) value = legacy.gamma(call[0], call[1]);
      result.push_back(values);
    } else if (kind == "below") {
      result.push_back(python.below(call));
    } else {
      std::vector<int> items(call.get<size_t>());
      for (size_t i = 0; i < items.size(); ++i) items[i] = static_cast<int>(i);
      python.shuffle(items);
      result.push_back(items);
    }
  }
  return result;
}

Json requests_json(const std::vector<SampleRequest>& requests) {
  Json list = Json::array();
  for (const SampleRequest& request : requests) {
    list.push_back({{"prompt", request.prompt},
                    {"messages", Json::parse(request.messages.dump())},
                    {"prompt_len", request.prompt_len},
                    {"output_len", request.output_len},
                    {"request_id", request.request_id}});
  }
  return list;
}

void no_warning(const std::string& /*text*/) {}

Json random_prompts(const Json& ask) {
  const auto tokenizer = PromptTokenizer::load(ask["folder"].get<std::string>());
  return requests_json(sample_random({.num_prompts = ask["num_prompts"],
                                      .input_len = ask["input_len"],
                                      .output_len = ask["output_len"],
                                      .input_range_ratio = ask["input_ratio"],
                                      .output_range_ratio = ask["output_ratio"],
                                      .prefix_len = ask["prefix_len"],
                                      .seed = ask["seed"],
                                      .request_id_prefix = "id-"},
                                     *tokenizer, no_warning));
}

/// With what the generator gives next: arrivals come from there.
Json repeated_prefixes(const Json& ask) {
  const auto tokenizer = PromptTokenizer::load(ask["folder"].get<std::string>());
  NumpyLegacyRandom numpy(0);
  const auto requests = sample_prefix_repetition({.num_prompts = ask["num_prompts"],
                                                  .num_prefixes = ask["num_prefixes"],
                                                  .prefix_len = ask["prefix_len"],
                                                  .suffix_len = ask["suffix_len"],
                                                  .output_len = ask["output_len"],
                                                  .seed = ask["seed"],
                                                  .shuffle = ask["shuffle"],
                                                  .request_id_prefix = "id-"},
                                                 *tokenizer, numpy, no_warning);
  return {{"requests", requests_json(requests)}, {"next", numpy.randint(0, 1000, 5)}};
}

Json file_prompts(const Json& ask) {
  const auto tokenizer = PromptTokenizer::load(ask["folder"].get<std::string>());
  FileDataset dataset;
  const std::string kind = ask["kind"];
  if (kind == "sharegpt") dataset.kind = FileDataset::Kind::sharegpt;
  if (kind == "spec_bench") dataset.kind = FileDataset::Kind::spec_bench;
  dataset.path = ask["path"].get<std::string>();
  dataset.num_prompts = ask["num_prompts"];
  dataset.output_len = ask["output_len"];
  dataset.category = ask.value("category", "");
  dataset.skip_chat_template = ask.value("skip_chat_template", false);
  dataset.chat = ask.value("chat", false);
  dataset.seed = ask["seed"];
  dataset.shuffle = ask.value("shuffle", true);
  dataset.oversample = ask.value("oversample", true);
  dataset.request_id_prefix = "id-";
  return requests_json(sample_file(dataset, tokenizer.get()));
}

Traffic traffic_of(const Json& ask) {
  Traffic traffic;
  traffic.request_rate = number_or_infinity(ask["request_rate"]);
  traffic.burstiness = number_or_infinity(ask["burstiness"]);
  traffic.ramp_up_strategy = ask.value("strategy", "");
  traffic.ramp_up_start_rps = ask.value("start", 0);
  traffic.ramp_up_end_rps = ask.value("end", 0);
  return traffic;
}

Json arrivals(const Json& ask) {
  NumpyLegacyRandom numpy(ask["seed"].get<uint32_t>());
  Json list = Json::array();
  for (const Arrival& arrival : plan_arrivals(traffic_of(ask), ask["count"], numpy))
    list.push_back(arrival.due_s);
  return list;
}

RequestOutcome outcome_of(const Json& value) {
  RequestOutcome outcome;
  outcome.success = value["success"];
  outcome.error = value["error"];
  outcome.text = value["text"];
  outcome.start_s = value["start"];
  outcome.ttft_s = value["ttft"];
  outcome.latency_s = value["latency"];
  outcome.itl_s = value["itl"].get<std::vector<double>>();
  outcome.queue_s = value["queue"];
  outcome.prompt_tokens = value["prompt_tokens"];
  outcome.output_tokens = value["output_tokens"];
  return outcome;
}

/// The text of the table and the result's part.
Json table(const Json& ask) {
  BenchServeOptions options;
  options.traffic = traffic_of(ask);
  if (!ask["max_concurrency"].is_null()) options.max_concurrency = ask["max_concurrency"].get<int64_t>();
  options.result.percentile_metrics = ask["metrics"].get<std::vector<std::string>>();
  options.result.percentiles = ask["percentiles"].get<std::vector<double>>();
  for (const auto& [name, bound] : ask["goodput"].items())
    options.result.goodput_ms.emplace_back(name, bound);
  ServeRun run;
  for (const Json& value : ask["outcomes"]) run.load.outcomes.push_back(outcome_of(value));
  run.load.duration_s = ask["duration"];
  run.speculation = speculation_between(read_speculation_counts(ask["before"].get<std::string>()),
                                        read_speculation_counts(ask["after"].get<std::string>()));
  run.metrics = serve_metrics(run.load.outcomes, run.load.duration_s, nullptr, options.result.goodput_ms);
  std::ostringstream text;
  const OrderedJson result = print_table(options, run, text);
  return {{"text", text.str()}, {"result", Json::parse(result.dump())}};
}

Json answer(const Json& ask) {
  const std::string op = ask["op"];
  if (op == "draws") return draws(ask);
  if (op == "random") return random_prompts(ask);
  if (op == "prefix_repetition") return repeated_prefixes(ask);
  if (op == "file") return file_prompts(ask);
  if (op == "arrivals") return arrivals(ask);
  if (op == "table") return table(ask);
  if (op == "bar") return progress_bar_text(ask["done"], ask["total"], ask["seconds"]);
  fail(ErrorKind::bad_input, "unknown op ", op);
}

}  // namespace
}  // namespace glint::bench

int main() {
  try {
    const std::string text(std::istreambuf_iterator<char>(std::cin), {});
    std::cout << glint::bench::answer(glint::Json::parse(text)).dump() << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
