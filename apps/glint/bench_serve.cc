// glint bench serve: the flags of `vllm bench serve`.

#include "bench/serve/bench_serve.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>

#include "base/error.h"
#include "base/flags/flag_parse.h"
#include "base/flags/help.h"
#include "client_commands.h"
#include "text/python_json.h"

namespace glint {

namespace {

using bench::BenchServeOptions;

constexpr int64_t kCountMax = int64_t{1} << 40;

/// A Python float: "10", "0.5", "inf".
struct Float {
  double operator()(std::string_view text) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || std::isnan(value)) {
      fail(ErrorKind::bad_input, "invalid float value: '", text, "'");
    }
    return value;
  }
  [[nodiscard]] static std::string show(const std::optional<double>& value) {
    if (!value) return "";
    return std::isinf(*value) ? "inf" : python_float_repr(*value);
  }
};

/// What is not bound to an option directly.
struct Words {
  std::vector<std::string> headers, metadata, goodput;
  std::string percentile_metrics = "ttft,tpot,itl";
  std::string percentiles = "99";
  std::string range_ratio = "0.0";
  std::string lora_assignment = "random";
  std::string client = "native";
  std::optional<double> top_p, min_p, temperature, frequency_penalty, presence_penalty, repetition_penalty;
  std::optional<int64_t> top_k;
  std::optional<int64_t> ramp_up_start, ramp_up_end;
  bool disable_tqdm = false, disable_shuffle = false, no_oversample = false;
};

void add_target_flags(FlagTable& table, BenchServeOptions& options, Words& words) {
  table.group("Target");
  table.add(value_flag("backend", options.backend, Choice{{"openai", "vllm", "openai-chat", "vllm-chat"}})
                .help("openai and vllm: /v1/completions; openai-chat and vllm-chat: /v1/chat/completions"));
  table.add(value_flag("base-url", options.base_url, Text{})
                .metavar("URL")
                .help("http:// or https:// address of the server, instead of --host and --port"));
  table.add(value_flag("host", options.host, Text{}).metavar("HOST").help("The server's host"));
  table.add(
      value_flag("port", options.port, WholeNumber{1, 65535}).metavar("PORT").help("The server's port"));
  table.add(
      value_flag("endpoint", options.endpoint, Text{}).metavar("PATH").help("Path that requests go to"));
  table.add(
      list_flag("header", words.headers)
          .metavar("KEY=VALUE")
          .help("Headers of every request; OPENAI_API_KEY gives the Authorization header without one here"));
  table.add(
      toggle_flag("insecure", options.insecure).help("Do not check the certificate of an https server"));
  table.add(value_flag("ready-check-timeout-sec", options.ready_check_timeout_s, WholeNumber{0, 1'000'000})
                .metavar("SECONDS")
                .help("Wait so long for the server to answer one request first; 0: do not"));
}

void add_model_flags(FlagTable& table, BenchServeOptions& options, Words& words) {
  table.group("Model");
  table.add(
      value_flag("model", options.model, Text{})
          .metavar("MODEL")
          .help(
              "Name of the model, and where its tokenizer is found: a folder, or a name in the Hugging Face "
              "cache. Without it: the first model that the server lists"));
  table.add(value_flag("served-model-name", options.served_model_name, Text{})
                .metavar("NAME")
                .help("Name of the model in requests, if it is another one"));
  table.add(value_flag("tokenizer", options.tokenizer, Text{})
                .metavar("FOLDER")
                .help("Folder with tokenizer.json, if it is not the model's"));
  table.add(toggle_flag("skip-tokenizer-init", options.skip_tokenizer_init)
                .help("Do without a tokenizer: --dataset-name custom only"));
  table.add(list_flag("lora-modules", options.lora_modules)
                .metavar("NAME")
                .help("Names of models, of which each request asks one"));
  table.add(value_flag("lora-assignment", words.lora_assignment, Choice{{"random", "round-robin"}})
                .help("How --lora-modules are dealt out"));
  table.add(no_effect_flag("tokenizer-mode", FlagKind::value, "there is one tokenizer", {"auto", "hf"}));
  table.add(no_effect_flag("trust-remote-code", FlagKind::toggle, "no code of a model is ever run"));
}

void add_load_flags(FlagTable& table, BenchServeOptions& options, Words& words) {
  table.group("Load");
  table.add(value_flag("num-prompts", options.num_prompts, WholeNumber{-1, kCountMax})
                .metavar("N")
                .help("Requests to send; custom: 0 takes the whole file"));
  table.add(value_flag("request-rate", options.traffic.request_rate, Float{})
                .metavar("RPS")
                .help("Requests a second; inf: all at once"));
  table.add(
      value_flag("burstiness", options.traffic.burstiness, Float{})
          .metavar("SHAPE")
          .help("Shape of the gamma distribution of the gaps: 1 is a Poisson process, less comes in bursts, "
                "more is steadier, inf is constant"));
  table.add(value_flag("max-concurrency", options.max_concurrency, WholeNumber{1, kCountMax})
                .metavar("N")
                .help("Requests under way at once, at most"));
  table.add(value_flag("num-warmups", options.num_warmups, WholeNumber{0, kCountMax})
                .metavar("N")
                .help("Requests before the measurement"));
  table.add(
      value_flag("ramp-up-strategy", options.traffic.ramp_up_strategy, Choice{{"linear", "exponential"}})
          .help("Let the rate grow from --ramp-up-start-rps to --ramp-up-end-rps"));
  table.add(value_flag("ramp-up-start-rps", words.ramp_up_start, WholeNumber{-kCountMax, kCountMax})
                .metavar("RPS")
                .help("Rate at the first request"));
  table.add(value_flag("ramp-up-end-rps", words.ramp_up_end, WholeNumber{-kCountMax, kCountMax})
                .metavar("RPS")
                .help("Rate at the last request"));
  table.add(value_flag("probe-request-rate", options.probe_request_rate, Float{})
                .metavar("RPS")
                .help("One-token requests beside the load, with their own latencies; 0: none"));
  table.add(value_flag("client", words.client, Choice{{"native", "compat"}})
                .help("When a chunk's time is taken: when it is read, or where vLLM's client takes it"));
  table.add(
      toggle_flag("profile", options.profile).help("POST /start_profile and /stop_profile around the run"));
  table.add(refused_flag("self-timed", FlagKind::toggle,
                         "it is only supported with --dataset-name=timed_trace, which is not read here"));
}

void add_sampling_flags(FlagTable& table, BenchServeOptions& options, Words& words) {
  table.group("Sampling");
  const auto number = [&](const char* name, std::optional<double>& target) {
    table.add(value_flag(name, target, Float{}).metavar("X").help("Sent with every request if given"));
  };
  number("temperature", words.temperature);
  number("top-p", words.top_p);
  table.add(value_flag("top-k", words.top_k, WholeNumber{-1, kCountMax})
                .metavar("N")
                .help("Sent with every request if given"));
  number("min-p", words.min_p);
  number("frequency-penalty", words.frequency_penalty);
  number("presence-penalty", words.presence_penalty);
  number("repetition-penalty", words.repetition_penalty);
  table.add(value_flag("logprobs", options.logprobs, WholeNumber{-1, kCountMax})
                .metavar("N")
                .help("Logprobs to ask for"));
  table.add(toggle_flag("ignore-eos", options.ignore_eos)
                .help("Let answers run to their full length; always on with --dataset-name random"));
  table.add(object_flag("extra-body", options.extra_body)
                .metavar("JSON")
                .help("Fields added to every request's body"));
  table.add(object_flag("chat-template-kwargs", options.chat_template_kwargs)
                .metavar("JSON")
                .help("Template variables of prompts that are rendered here"));
  table.add(no_effect_flag("use-beam-search", FlagKind::toggle, "no endpoint here has it"));
}

void add_dataset_flags(FlagTable& table, BenchServeOptions& options, Words& words) {
  bench::DatasetOptions& dataset = options.dataset;
  const WholeNumber length{0, kCountMax};
  table.group("Dataset");
  table.add(value_flag("dataset-name", dataset.name,
                       Choice{{"random", "prefix_repetition", "custom", "sharegpt", "spec_bench"}})
                .help("random: runs of ids; prefix_repetition: few beginnings, many ends; the others read "
                      "--dataset-path"));
  table.add(
      value_flag("dataset-path", dataset.path, Text{})
          .metavar("FILE")
          .help("custom: JSON Lines with `prompt` (and `output_tokens`) or `messages`; sharegpt: an array or "
                "lines with `conversations`; spec_bench: lines with `turns`"));
  table.add(value_flag("seed", options.seed, WholeNumber{0, 4294967295}).metavar("N").help("Of all draws"));
  table.add(value_flag("input-len", dataset.input_len, length).metavar("N").help("Above --random-input-len"));
  table.add(value_flag("output-len", dataset.output_len, length)
                .metavar("N")
                .help("Above the output length of any dataset"));
  table.add(toggle_flag("disable-shuffle", words.disable_shuffle).help("Take a file's rows in their order"));
  table.add(toggle_flag("no-oversample", words.no_oversample).help("Do not take a file's rows twice"));
  table.add(toggle_flag("skip-chat-template", dataset.skip_chat_template)
                .help("Send a file's prompts as they are"));
  table.add(value_flag("random-input-len", dataset.random_input_len, length)
                .metavar("N")
                .help("Tokens of a prompt"));
  table.add(value_flag("random-output-len", dataset.random_output_len, length)
                .metavar("N")
                .help("Tokens of an answer"));
  table.add(
      value_flag("random-range-ratio", words.range_ratio, Text{})
          .metavar("R")
          .help("Lengths lie within 1-R and 1+R of theirs, 0 <= R < 1; or {\"input\": R1, \"output\": R2}"));
  table.add(value_flag("random-prefix-len", dataset.random_prefix_len, length)
                .metavar("N")
                .help("Tokens that all prompts begin with"));
  table.add(no_effect_flag("random-batch-size", FlagKind::value, "it is of embedding servers"));
  table.add(value_flag("custom-output-len", dataset.custom_output_len, WholeNumber{-1, kCountMax})
                .metavar("N")
                .help("Tokens of an answer; -1: the row's `output_tokens`"));
  table.add(value_flag("sharegpt-output-len", dataset.sharegpt_output_len, length)
                .metavar("N")
                .help("Tokens of an answer; without it those of the file's answer"));
  table.add(value_flag("spec-bench-output-len", dataset.spec_bench_output_len, length)
                .metavar("N")
                .help("Tokens of an answer"));
  table.add(value_flag("spec-bench-category", dataset.spec_bench_category, Text{})
                .metavar("NAME")
                .help("Rows of this category only"));
  table.add(value_flag("prefix-repetition-prefix-len", dataset.repetition_prefix_len, length)
                .metavar("N")
                .help("Tokens of a beginning"));
  table.add(value_flag("prefix-repetition-suffix-len", dataset.repetition_suffix_len, length)
                .metavar("N")
                .help("Tokens of an end"));
  table.add(
      value_flag("prefix-repetition-num-prefixes", dataset.repetition_num_prefixes, WholeNumber{1, kCountMax})
          .metavar("N")
          .help("Different beginnings"));
  table.add(value_flag("prefix-repetition-output-len", dataset.repetition_output_len, length)
                .metavar("N")
                .help("Tokens of an answer"));
}

void add_report_flags(FlagTable& table, BenchServeOptions& options, Words& words) {
  bench::ResultOptions& result = options.result;
  table.group("Report");
  table.add(
      value_flag("percentile-metrics", words.percentile_metrics, Text{})
          .metavar("LIST")
          .help("Metrics to print: ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue"));
  table.add(value_flag("metric-percentiles", words.percentiles, Text{})
                .metavar("LIST")
                .help("Their percentiles, as in 50,90,99"));
  table.add(list_flag("goodput", words.goodput)
                .metavar("NAME:MS")
                .help("Bounds that a good request keeps: ttft:200 tpot:50 e2el:3000"));
  table.add(value_flag("request-id-prefix", options.request_id_prefix, Text{})
                .metavar("TEXT")
                .default_text("bench-, 8 random hex digits, -")
                .help("Beginning of the x-request-id headers"));
  table.add(toggle_flag("disable-tqdm", words.disable_tqdm)
                .help("No progress bar (there is none but on a terminal)"));
  table.add(toggle_flag("save-result", result.save).help("Save the figures as JSON"));
  table.add(toggle_flag("save-detailed", result.save_detailed).help("With those of every request"));
  table.add(toggle_flag("append-result", result.append).help("Append them to the file as one more line"));
  table.add(value_flag("result-dir", result.folder, Text{}).metavar("DIR").help("Folder of the file"));
  table.add(value_flag("result-filename", result.file_name, Text{})
                .metavar("FILE")
                .help("Its name; without it made of label, rate, model and time"));
  table.add(list_flag("metadata", words.metadata).metavar("KEY=VALUE").help("Put into the file"));
  table.add(value_flag("label", result.label, Text{}).metavar("TEXT").help("Put into the file and its name"));
  const char* const python = "it draws with Python: save the figures with --save-result --save-detailed";
  table.add(refused_flag("plot-timeline", FlagKind::toggle, python));
  table.add(refused_flag("plot-dataset-stats", FlagKind::toggle, python));
  table.add(no_effect_flag("timeline-itl-thresholds", FlagKind::value, "nothing is drawn here"));
}

std::pair<std::string, std::string> key_and_value(const std::string& flag, const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos) {
    fail(ErrorKind::bad_input, "argument --", flag, ": Invalid ", flag,
         " format. Please use KEY=VALUE format, got ", text);
  }
  const auto trimmed = [](const std::string& part) {
    const size_t first = part.find_first_not_of(' ');
    return first == std::string::npos ? "" : part.substr(first, part.find_last_not_of(' ') - first + 1);
  };
  return {trimmed(text.substr(0, at)), trimmed(text.substr(at + 1))};
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = list.find(','); end != std::string::npos; end = list.find(',', begin)) {
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(list.substr(begin));
  return parts;
}

double number_of(const std::string& flag, std::string_view text) {
  try {
    return Float()(text);
  } catch (const Error& error) {
    fail(ErrorKind::bad_input, "argument --", flag, ": ", error.what());
  }
}

void set_range_ratio(const std::string& text, bench::DatasetOptions& dataset) {
  if (!text.starts_with('{')) {
    dataset.random_input_ratio = dataset.random_output_ratio = number_of("random-range-ratio", text);
    return;
  }
  const OrderedJson ratios = parse_python_json(text, "argument --random-range-ratio");
  for (const auto& [key, value] : ratios.items()) {
    if ((key != "input" && key != "output") || !value.is_number()) {
      fail(ErrorKind::bad_input,
           "argument --random-range-ratio: expected a number or {\"input\": R1, \"output\": R2}, got ", text);
    }
    (key == "input" ? dataset.random_input_ratio : dataset.random_output_ratio) = value.get<double>();
  }
}

void set_goodput(const std::vector<std::string>& pairs, bench::ResultOptions& result) {
  for (const std::string& pair : pairs) {
    const size_t colon = pair.find(':');
    if (colon == std::string::npos) {
      fail(ErrorKind::bad_input,
           "argument --goodput: Invalid format found for service level objectives. Specify service level "
           "objectives "
           "for goodput as \"KEY:VALUE\" pairs, where the key is a metric name, and the value is a number in "
           "milliseconds, got ",
           pair);
    }
    const std::string name = pair.substr(0, colon);
    const double bound = number_of("goodput", std::string_view(pair).substr(colon + 1));
    if (name != "ttft" && name != "tpot" && name != "e2el") {
      fail(ErrorKind::bad_input, "argument --goodput: Invalid metric name found, ", name,
           ". The service level objective name should be one of ['ttft', 'tpot', 'e2el'].");
    }
    if (bound < 0) {
      fail(ErrorKind::bad_input, "argument --goodput: Invalid value found, ", pair,
           ". The service level objective value should be non-negative.");
    }
    std::erase_if(result.goodput_ms, [&](const auto& entry) { return entry.first == name; });
    result.goodput_ms.emplace_back(name, bound);
  }
}

void set_percentiles(const Words& words, bench::ResultOptions& result) {
  result.percentile_metrics = parts_of(words.percentile_metrics);
  for (const std::string& name : result.percentile_metrics) {
    static const std::vector<std::string> known{
        "ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"};
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(ErrorKind::bad_input, "argument --percentile-metrics: ", name,
           " is none of ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue");
    }
  }
  result.percentiles.clear();
  for (const std::string& text : parts_of(words.percentiles)) {
    const double percent = number_of("metric-percentiles", text);
    if (!(percent >= 0 && percent <= 100)) {
      fail(ErrorKind::bad_input, "argument --metric-percentiles: expected numbers from 0 to 100, got ", text);
    }
    result.percentiles.push_back(percent);
  }
}

void set_sampling(const Words& words, OrderedJson& sampling) {
  const auto add = [&](const char* name, const auto& value) {
    if (value) sampling[name] = *value;
  };
  add("top_p", words.top_p);
  add("top_k", words.top_k);
  add("min_p", words.min_p);
  add("temperature", words.temperature);
  add("frequency_penalty", words.frequency_penalty);
  add("presence_penalty", words.presence_penalty);
  add("repetition_penalty", words.repetition_penalty);
}

std::string random_prefix() {
  std::random_device device;
  char text[32];
  const int bytes = std::snprintf(text, sizeof text, "bench-%08x-", static_cast<unsigned>(device()));
  return {text, static_cast<size_t>(bytes)};
}

/// Everything that the table could not bind.
void complete(BenchServeOptions& options, const Words& words, const FlagReport& report) {
  for (const std::string& text : words.headers) options.headers.push_back(key_and_value("header", text));
  for (const std::string& text : words.metadata)
    options.result.metadata.push_back(key_and_value("metadata", text));
  set_goodput(words.goodput, options.result);
  set_percentiles(words, options.result);
  set_range_ratio(words.range_ratio, options.dataset);
  set_sampling(words, options.sampling);
  options.lora_round_robin = words.lora_assignment == "round-robin";
  options.clock = words.client == "compat" ? bench::ChunkClock::compat : bench::ChunkClock::native;
  options.result.progress_bar = !words.disable_tqdm;
  options.dataset.shuffle = !words.disable_shuffle;
  options.dataset.oversample = !words.no_oversample;
  if (!report.has("request-id-prefix")) options.request_id_prefix = random_prefix();
  options.traffic.ramp_up_start_rps = words.ramp_up_start.value_or(0);
  options.traffic.ramp_up_end_rps = words.ramp_up_end.value_or(0);
  check_traffic(options.traffic, words.ramp_up_start.has_value(), words.ramp_up_end.has_value());
  const bool chat = options.backend.ends_with("-chat");
  if (chat && !report.has("endpoint")) options.endpoint = "/v1/chat/completions";
}

/// The main ones, for the first line of the output.
void set_shown(BenchServeOptions& options, const Words& words) {
  const auto text = [](const std::string& value) {
    return value.empty() ? OrderedJson() : OrderedJson(value);
  };
  options.shown = {
      {"subparser", "bench"},
      {"bench_type", "serve"},
      {"seed", options.seed},
      {"num_prompts", options.num_prompts},
      {"dataset_name", options.dataset.name},
      {"dataset_path", text(options.dataset.path)},
      {"random_input_len", options.dataset.input_len.value_or(options.dataset.random_input_len)},
      {"random_output_len", options.dataset.output_len.value_or(options.dataset.random_output_len)},
      {"random_range_ratio", text(words.range_ratio)},
      {"random_prefix_len", options.dataset.random_prefix_len},
      {"backend", options.backend},
      {"base_url", text(options.base_url)},
      {"host", options.host},
      {"port", options.port},
      {"endpoint", options.endpoint},
      {"header", options.headers.empty() ? OrderedJson() : OrderedJson("<redacted>")},
      {"max_concurrency", options.max_concurrency ? OrderedJson(*options.max_concurrency) : OrderedJson()},
      {"model", text(options.model)},
      {"served_model_name", text(options.served_model_name)},
      {"tokenizer", text(options.tokenizer)},
      {"request_rate", options.traffic.request_rate},
      {"burstiness", options.traffic.burstiness},
      {"num_warmups", options.num_warmups},
      {"ignore_eos", options.ignore_eos},
      {"extra_body", options.extra_body.empty() ? OrderedJson() : options.extra_body},
      {"percentile_metrics", words.percentile_metrics},
      {"metric_percentiles", words.percentiles},
      {"request_id_prefix", options.request_id_prefix}};
}

}  // namespace

void run_bench_serve(const std::vector<std::string>& words_given) {
  BenchServeOptions options;
  Words words;
  FlagTable table(
      "glint", "bench serve",
      "Measures an OpenAI-compatible server: the load, the figures and the table of `vllm bench serve`.");
  add_target_flags(table, options, words);
  add_model_flags(table, options, words);
  add_load_flags(table, options, words);
  add_sampling_flags(table, options, words);
  add_dataset_flags(table, options, words);
  add_report_flags(table, options, words);
  const FlagReport report =
      parse_flags(table, words_given, [](const char* name) { return std::getenv(name); });
  if (report.help) {
    std::cout << help_text(table, *report.help, 100);
    return;
  }
  for (const std::string& line : report.warnings) std::cerr << "WARNING: " << line << "\n";
  complete(options, words, report);
  set_shown(options, words);
  bench::bench_serve(std::move(options), std::cout);
}

}  // namespace glint
