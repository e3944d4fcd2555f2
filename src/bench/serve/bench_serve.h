// glint bench serve: load for an OpenAI-compatible server, measured, printed and saved as `vllm bench serve`
// does it. docs/bench-serve.md tells what is the same and what is not.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "bench/serve/arrivals.h"
#include "bench/serve/stream_outcome.h"

namespace glint::bench {

struct DatasetOptions {
  std::string name = "random";
  std::string path;
  std::optional<int64_t> input_len, output_len;  // above what the dataset's own options say
  bool shuffle = true;
  bool oversample = true;
  bool skip_chat_template = false;
  int64_t random_input_len = 1024, random_output_len = 128, random_prefix_len = 0;
  double random_input_ratio = 0, random_output_ratio = 0;
  int64_t custom_output_len = 256;
  std::optional<int64_t> sharegpt_output_len;
  int64_t spec_bench_output_len = 256;
  std::string spec_bench_category;
  int64_t repetition_prefix_len = 256, repetition_suffix_len = 256, repetition_num_prefixes = 10,
          repetition_output_len = 128;
};

struct ResultOptions {
  std::vector<std::string> percentile_metrics{"ttft", "tpot", "itl"};
  std::vector<double> percentiles{99};
  std::vector<std::pair<std::string, double>> goodput_ms;  // of ttft, tpot, e2el
  bool progress_bar = true;                                // on a terminal
  bool save = false, save_detailed = false, append = false;
  std::string folder, file_name, label;
  std::vector<std::pair<std::string, std::string>> metadata;
};

struct BenchServeOptions {
  std::string backend = "openai";
  std::string base_url;  // else http://host:port
  std::string host = "127.0.0.1";
  int64_t port = 8000;
  std::string endpoint = "/v1/completions";
  std::vector<std::pair<std::string, std::string>> headers;
  bool insecure = false;
  int64_t ready_check_timeout_s = 0;

  std::string model, served_model_name, tokenizer;
  bool skip_tokenizer_init = false;
  std::vector<std::string> lora_modules;
  bool lora_round_robin = false;

  uint32_t seed = 0;
  int64_t num_prompts = 1000;
  Traffic traffic{std::numeric_limits<double>::infinity(), 1, "", 0, 0};
  std::optional<int64_t> max_concurrency;
  int64_t num_warmups = 0;
  double probe_request_rate = 0;
  bool profile = false;

  OrderedJson sampling = OrderedJson::object();  // temperature, top_p...: what was given
  OrderedJson extra_body = OrderedJson::object();
  OrderedJson chat_template_kwargs;  // null or an object
  std::optional<int64_t> logprobs;
  bool ignore_eos = false;
  std::string request_id_prefix;
  ChunkClock clock = ChunkClock::native;

  DatasetOptions dataset;
  ResultOptions result;
  std::vector<std::pair<std::string, OrderedJson>> shown;  // the flags, as they are printed first
};

/// Runs the benchmark; standard output gets what vLLM prints, standard error warnings and the bar. Throws
/// bad_input for options that do not fit together, io if the server cannot be reached or no request came
/// through.
void bench_serve(BenchServeOptions options, std::ostream& out);

}  // namespace glint::bench
