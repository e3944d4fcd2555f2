#include "bench/serve/bench_serve.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <thread>

#include "base/error.h"
#include "bench/serve/datasets.h"
#include "bench/serve/serve_report.h"
#include "bench/serve/server_questions.h"
#include "text/python_json.h"

namespace glint::bench {

namespace {

bool is_chat(const BenchServeOptions& options) {
  return options.backend.ends_with("-chat");
}

void warn(const std::string& text) {
  std::cerr << "WARNING: " << text << "\n";
}

std::string float_text(double value) {
  return std::isinf(value) ? "inf" : python_float_repr(value);
}

std::string date_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 64> text{};
  const size_t bytes = std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &local);
  return {text.data(), bytes};
}

/// datetime.now().isoformat().
std::string iso_text() {
  timeval now{};
  gettimeofday(&now, nullptr);
  std::tm local{};
  localtime_r(&now.tv_sec, &local);
  std::array<char, 64> text{};
  const size_t bytes = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &local);
  std::array<char, 16> fraction{};
  static_cast<void>(std::snprintf(fraction.data(), fraction.size(), ".%06ld", now.tv_usec));
  return std::string(text.data(), bytes) + fraction.data();
}

/// One Python namespace of the flags, as vLLM prints it.
void print_options(const BenchServeOptions& options, std::ostream& out) {
  const auto shown = [](const OrderedJson& value) -> std::string {
    if (value.is_null()) return "None";
    if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
    if (value.is_number_float()) return float_text(value.get<double>());
    if (value.is_string()) {
      std::string text = "'";
      for (const char c : value.get_ref<const std::string&>())
        text += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
      return text + "'";
    }
    return python_dumps(value);
  };
  out << "Namespace(";
  const char* separator = "";
  for (const auto& [name, value] : options.shown) {
    out << separator << name << "=" << shown(value);
    separator = ", ";
  }
  out << ")\n";
}

/// A benchmark from its options to its result.
class BenchServe {
 public:
  BenchServe(BenchServeOptions options, std::ostream& out)
      : options_(std::move(options)),
        out_(out),
        target_(url_of(options_), options_.insecure),
        numpy_(options_.seed) {}

  void run() {
    print_options(options_, out_);
    check();
    if (options_.ready_check_timeout_s <= 0) check_reachable(target_);
    choose_model();
    load_tokenizer();
    std::vector<SampleRequest> requests = sample();
    if (options_.dataset.name == "random" || options_.dataset.name == "prefix_repetition") {
      align_prompts(target_, headers(), request_model(), requests, out_);
    }
    if (!options_.sampling.contains("temperature")) {
      out_ << "WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. The "
              "default "
              "will be determined on the server side and can be model/API specific. For the old behavior, "
              "include "
              "--temperature=0.\n";
    }
    measure(requests);
  }

 private:
  static Url url_of(const BenchServeOptions& options) {
    if (!options.base_url.empty()) return Url::parse(options.base_url);
    Url url;
    url.host = options.host;
    url.port = static_cast<int>(options.port);
    return url;
  }

  void check() {
    const std::string suffix = is_chat(options_) ? "chat/completions" : "completions";
    if (!options_.endpoint.ends_with(suffix) ||
        (!is_chat(options_) && options_.endpoint.ends_with("chat/completions"))) {
      fail(ErrorKind::bad_input, "argument --endpoint: --backend ", options_.backend,
           " needs an endpoint that ends with ",
           is_chat(options_) ? "/v1/chat/completions" : "/v1/completions", ", got ", options_.endpoint);
    }
    if (options_.num_prompts < 1 && options_.dataset.name != "custom") {
      fail(ErrorKind::bad_input, "argument --num-prompts: expected at least 1, got ", options_.num_prompts);
    }
    const bool made = options_.dataset.name == "random" || options_.dataset.name == "prefix_repetition";
    if (made && !options_.dataset.path.empty()) {
      fail(ErrorKind::bad_input, "Cannot use '", options_.dataset.name,
           "' dataset with --dataset-path. Please specify the appropriate --dataset-name (e.g., 'sharegpt', "
           "'custom') "
           "for your dataset file: ",
           options_.dataset.path);
    }
  }

  [[nodiscard]] HttpHeaders headers() const {
    HttpHeaders list = options_.headers;
    const bool given = std::any_of(list.begin(), list.end(), [](const auto& entry) {
      return entry.first == "Authorization" || entry.first == "authorization";
    });
    if (const char* key = std::getenv("OPENAI_API_KEY"); !given && key != nullptr && *key != '\0') {
      list.emplace_back("Authorization", std::string("Bearer ") + key);
    }
    return list;
  }

  void choose_model() {
    if (!options_.model.empty()) return;
    out_ << "Model not specified, fetching first model from server...\n";
    const auto models = served_models(target_, headers());
    if (models.empty()) {
      fail(ErrorKind::bad_input, "No models found on the server at ", target_.url().text(),
           ". Make sure the server is running and has models loaded, or give --model.");
    }
    options_.served_model_name = models.front().id;
    options_.model = models.front().root;
    out_ << "First model name: " << models.front().id << ", first model id: " << models.front().root << "\n";
  }

  /// What requests name.
  [[nodiscard]] const std::string& request_model() const {
    return options_.served_model_name.empty() ? options_.model : options_.served_model_name;
  }

  void load_tokenizer() {
    if (options_.skip_tokenizer_init) return;
    const std::string& name = options_.tokenizer.empty() ? options_.model : options_.tokenizer;
    auto path = find_tokenizer(name);
    if (!path && options_.tokenizer.empty()) path = root_of_served_model(name);
    if (!path) {
      fail(ErrorKind::not_found, name,
           ": no such folder and not in the Hugging Face cache; give --tokenizer FOLDER ",
           "(one with tokenizer.json)");
    }
    tokenizer_id_ = name;
    tokenizer_ = PromptTokenizer::load(*path);
  }

  /// A server on this machine tells where its model lies.
  std::optional<std::filesystem::path> root_of_served_model(const std::string& name) const {
    const auto models = served_models(target_, headers());
    for (const ServedModelEntry& model : models) {
      if (model.id != request_model() && model.root != name && models.size() > 1) continue;
      const auto path = find_tokenizer(model.root);
      if (path)
        warn(cat(name, " is not on this machine; the tokenizer is that of the server's model, ",
                 path->string()));
      return path;
    }
    return std::nullopt;
  }

  const PromptTokenizer& tokenizer() const {
    if (tokenizer_) return *tokenizer_;
    fail(ErrorKind::bad_input, "Tokenizer must be initialized for the '", options_.dataset.name,
         "' dataset: drop --skip-tokenizer-init");
  }

  std::vector<SampleRequest> sample() {
    const DatasetOptions& given = options_.dataset;
    if (given.name == "random") {
      options_.ignore_eos = true;  // so that answers have the length that was asked for
      return sample_random({.num_prompts = options_.num_prompts,
                            .input_len = given.input_len.value_or(given.random_input_len),
                            .output_len = given.output_len.value_or(given.random_output_len),
                            .input_range_ratio = given.random_input_ratio,
                            .output_range_ratio = given.random_output_ratio,
                            .prefix_len = given.random_prefix_len,
                            .seed = options_.seed,
                            .request_id_prefix = options_.request_id_prefix},
                           tokenizer(), warn);
    }
    if (given.name == "prefix_repetition") {
      return sample_prefix_repetition({.num_prompts = options_.num_prompts,
                                       .num_prefixes = given.repetition_num_prefixes,
                                       .prefix_len = given.repetition_prefix_len,
                                       .suffix_len = given.repetition_suffix_len,
                                       .output_len = given.output_len.value_or(given.repetition_output_len),
                                       .seed = options_.seed,
                                       .shuffle = given.shuffle,
                                       .request_id_prefix = options_.request_id_prefix},
                                      tokenizer(), numpy_, warn);
    }
    return sample_file(file_dataset(), tokenizer_.get());
  }

  [[nodiscard]] FileDataset file_dataset() const {
    const DatasetOptions& given = options_.dataset;
    FileDataset dataset;
    dataset.path = given.path;
    dataset.num_prompts = options_.num_prompts;
    dataset.skip_chat_template = given.skip_chat_template;
    dataset.chat = is_chat(options_);
    dataset.chat_template_kwargs = options_.chat_template_kwargs;
    dataset.seed = options_.seed;
    dataset.shuffle = given.shuffle;
    dataset.oversample = given.oversample;
    dataset.request_id_prefix = options_.request_id_prefix;
    if (given.name == "sharegpt") {
      dataset.kind = FileDataset::Kind::sharegpt;
      dataset.output_len = given.output_len.value_or(given.sharegpt_output_len.value_or(-1));
    } else if (given.name == "spec_bench") {
      dataset.kind = FileDataset::Kind::spec_bench;
      dataset.category = given.spec_bench_category;
      dataset.output_len = given.output_len.value_or(given.spec_bench_output_len);
    } else {
      dataset.output_len = given.output_len.value_or(given.custom_output_len);
    }
    const bool rendered = dataset.kind != FileDataset::Kind::sharegpt && !dataset.skip_chat_template;
    if (dataset.chat && rendered && tokenizer_) {
      warn(
          "prompts of this dataset are rendered with the chat template, as in vLLM, and the chat endpoint "
          "renders "
          "them again; --skip-chat-template sends them as they are");
    }
    return dataset;
  }

  std::string body_of(const SampleRequest& request, const std::string& model) const {
    OrderedJson body;
    body["model"] = model;
    if (is_chat(options_)) {
      body["messages"] = request.messages;
      if (request.messages.is_null()) {
        body["messages"] = OrderedJson::array({OrderedJson{
            {"role", "user"},
            {"content", OrderedJson::array({OrderedJson{{"type", "text"}, {"text", request.prompt}}})}}});
      }
      body["max_completion_tokens"] = request.output_len;
    } else {
      body["prompt"] = request.prompt;
      body["repetition_penalty"] = 1.0;
      body["max_tokens"] = request.output_len;
      body["logprobs"] = nullptr;
      if (options_.logprobs) body["logprobs"] = *options_.logprobs;
    }
    body["stream"] = true;
    body["stream_options"] = OrderedJson{{"include_usage", true}};
    if (options_.ignore_eos) body["ignore_eos"] = true;
    for (const OrderedJson* more : {&options_.sampling, &options_.extra_body}) {
      for (const auto& [key, value] : more->items()) body[key] = value;
    }
    return dump_json(body);
  }

  LoadPlan plan_of(const std::vector<SampleRequest>& requests) {
    LoadPlan plan;
    plan.path = options_.endpoint;
    plan.headers = headers();
    plan.format = is_chat(options_) ? StreamFormat::chat : StreamFormat::completions;
    plan.clock = options_.clock;
    plan.max_concurrency = options_.max_concurrency.value_or(0);
    PythonRandom python(options_.seed);
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto& lora = options_.lora_modules;
      std::string model = request_model();
      if (!lora.empty())
        model = lora[options_.lora_round_robin ? i % lora.size() : python.below(lora.size())];
      LoadRequest entry;
      entry.body = body_of(requests[i], model);
      entry.request_id = requests[i].request_id;
      entry.prompt_tokens = requests[i].prompt_len;
      plan.requests.push_back(std::move(entry));
    }
    return plan;
  }

  void measure(const std::vector<SampleRequest>& requests) {
    const auto arrivals = plan_arrivals(options_.traffic, requests.size(), numpy_);
    LoadPlan plan = plan_of(requests);
    // With the base model, as vLLM's first request.
    LoadRequest test = plan.requests.front();
    test.body = body_of(requests.front(), request_model());
    test.request_id.clear();
    for (size_t i = 0; i < arrivals.size(); ++i) plan.requests[i].due_s = arrivals[i].due_s;

    out_ << "Starting initial single prompt test run...\n";
    check_ready(plan, test);
    warm_up(plan, test);
    out_ << "Starting main benchmark run...\n";
    if (options_.profile) profile("start_profile", "Starting profiler...", "Profiler started");
    print_traffic();

    ServeRun run;
    run.has_tokenizer = tokenizer_ != nullptr;
    const auto before = read_speculation_counts(metrics_text(target_, headers()));
    set_hooks(plan, arrivals, run);
    run.probe = with_probe(plan, [&] { run.load = run_load(target_, plan); });
    run.speculation = speculation_between(before, read_speculation_counts(metrics_text(target_, headers())));
    run.metrics =
        serve_metrics(run.load.outcomes, run.load.duration_s, tokenizer_.get(), options_.result.goodput_ms);
    print_failures(run);
    OrderedJson result = print_table(options_, run, out_);
    print_own_block(options_, run, out_);
    if (options_.profile) profile("stop_profile", "Stopping profiler...", "Profiler stopped");
    save(std::move(result));
    if (run.metrics.completed == 0) fail_all(run);
  }

  void check_ready(const LoadPlan& plan, const LoadRequest& test) {
    if (options_.ready_check_timeout_s <= 0) {
      out_ << "Skipping endpoint ready check.\n";
      return;
    }
    constexpr double kRetry_s = 5;
    out_ << "Waiting for endpoint to become up in " << options_.ready_check_timeout_s << " seconds\n"
         << std::flush;
    const double end_s = now_s() + static_cast<double>(options_.ready_check_timeout_s);
    std::string error = cat("Endpoint readiness timed out after ", options_.ready_check_timeout_s, "s.");
    while (now_s() < end_s) {
      LoadPlan patient = plan;
      patient.requests.clear();
      patient.timeout_s = end_s - now_s();
      const RequestOutcome outcome = run_one(target_, patient, test);
      if (outcome.success) {
        out_ << "Initial test run completed.\n";
        return;
      }
      error = outcome.error;
      warn(cat("Endpoint is not ready. Error='", error, "'"));
      std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(end_s - now_s(), 0.0, kRetry_s)));
    }
    fail(ErrorKind::io,
         "Initial test run failed - Please make sure benchmark arguments are correctly specified. Error: ",
         error);
  }

  void warm_up(const LoadPlan& plan, const LoadRequest& test) {
    if (options_.num_warmups <= 0) return;
    out_ << "Warming up with " << options_.num_warmups << " requests...\n" << std::flush;
    LoadPlan warm = plan;
    warm.requests.assign(static_cast<size_t>(options_.num_warmups), test);
    for (LoadRequest& request : warm.requests) request.due_s = 0;
    static_cast<void>(run_load(target_, warm));
    out_ << "Warmup run completed.\n";
  }

  void print_traffic() {
    const Traffic& traffic = options_.traffic;
    if (traffic.ramp_up_strategy.empty()) {
      out_ << "Traffic request rate: " << float_text(traffic.request_rate) << "\n";
    } else {
      out_ << "Traffic ramp-up strategy: " << traffic.ramp_up_strategy << ".\n"
           << "Will increase RPS from " << traffic.ramp_up_start_rps << " to " << traffic.ramp_up_end_rps
           << " RPS over the duration of the benchmark.\n";
    }
    out_ << "Burstiness factor: " << float_text(traffic.burstiness) << " ("
         << (traffic.burstiness == 1 ? "Poisson process" : "Gamma distribution") << ")\n"
         << "Maximum request concurrency: "
         << (options_.max_concurrency ? std::to_string(*options_.max_concurrency) : "None") << "\n"
         << std::flush;
  }

  /// What happens beside the load: the bar, and the record of a ramp.
  void set_hooks(LoadPlan& plan, const std::vector<Arrival>& arrivals, ServeRun& run) const {
    if (!options_.traffic.ramp_up_strategy.empty()) {
      const auto last = std::make_shared<int64_t>(options_.traffic.ramp_up_start_rps);
      run.rps_change_events.push_back(OrderedJson{{"rps", *last}, {"timestamp", iso_text()}});
      plan.on_due = [&arrivals, &run, last](size_t index) {
        const auto rate = static_cast<int64_t>(arrivals[index].rate);
        const std::string time = iso_text();
        while (*last < rate)
          run.rps_change_events.push_back(OrderedJson{{"rps", ++*last}, {"timestamp", time}});
      };
    }
    if (!options_.result.progress_bar || ::isatty(STDERR_FILENO) != 1) return;
    const double begin_s = now_s();
    const size_t total = plan.requests.size();
    plan.on_progress = [begin_s, total](size_t done) {
      std::cerr << "\r" << progress_bar_text(done, total, now_s() - begin_s) << "\033[K"
                << (done == total ? "\n" : "") << std::flush;
    };
  }

  /// Runs `load` with short requests beside it, if they were asked for.
  template <class Load>
  std::optional<ProbeStatistics> with_probe(const LoadPlan& plan, const Load& load) {
    if (options_.probe_request_rate <= 0) {
      load();
      return std::nullopt;
    }
    out_ << "Probe request rate: " << float_text(options_.probe_request_rate) << " req/s\n" << std::flush;
    LoadPlan probe = plan;
    probe.requests.clear();
    SampleRequest hi;
    hi.prompt = "Hi";
    hi.prompt_len = hi.output_len = 1;
    LoadRequest request;
    request.body = body_of(hi, request_model());
    request.prompt_tokens = 1;
    std::atomic<bool> stop{false};
    std::vector<RequestOutcome> outcomes;
    std::thread thread([&] {
      while (!stop) {
        outcomes.push_back(run_one(target_, probe, request));
        const double next_s = now_s() + 1 / options_.probe_request_rate;
        while (!stop && now_s() < next_s) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    load();
    stop = true;
    thread.join();
    return probe_statistics(outcomes);
  }

  static std::optional<ProbeStatistics> probe_statistics(const std::vector<RequestOutcome>& outcomes) {
    std::vector<double> latencies;
    for (const RequestOutcome& outcome : outcomes) {
      if (outcome.success) latencies.push_back(outcome.latency_s * 1000);
    }
    if (latencies.empty()) return std::nullopt;
    ProbeStatistics result;
    result.completed = static_cast<int64_t>(latencies.size());
    result.failed = static_cast<int64_t>(outcomes.size() - latencies.size());
    const SampleStatistics statistics(std::move(latencies));
    result.median_ms = statistics.median();
    result.p99_ms = statistics.percentile(99);
    result.max_ms = statistics.maximum();
    return result;
  }

  void profile(const char* path, const char* begin, const char* done) {
    out_ << begin << "\n";
    HttpAsk ask;
    ask.method = "POST";
    ask.path = cat("/", path);
    ask.headers = headers();
    const HttpReply reply = fetch(target_, ask);
    if (reply.ok()) {
      out_ << done << "\n";
    } else {
      warn(cat(ask.path, ": ", failure_text(reply)));
    }
  }

  void print_failures(const ServeRun& run) {
    constexpr int kShown = 10;
    if (run.metrics.failed == 0) return;
    out_ << "Failed requests during benchmark run detected (capping to " << kShown << "):\n";
    int shown = 0;
    for (const RequestOutcome& outcome : run.load.outcomes) {
      if (outcome.success) continue;
      if (shown == kShown) return;
      out_ << "Error " << shown++ << ": " << outcome.error << "\n";
    }
  }

  void save(OrderedJson result) const {
    const std::string date = date_text();
    OrderedJson all = result_head(options_, date, tokenizer_id_);
    for (auto& [key, value] : result.items()) all[key] = std::move(value);
    save_result(options_, std::move(all), date);
  }

  [[noreturn]] void fail_all(const ServeRun& run) {
    const std::string& error = run.load.outcomes.front().error;
    std::string names;
    if (error.starts_with("404")) {
      for (const ServedModelEntry& model : served_models(target_, headers())) {
        names += (names.empty() ? "; the server serves " : ", ") + model.id;
      }
      if (!names.empty()) names += " (--served-model-name, or --model)";
    }
    fail(ErrorKind::io, "no request came through, the first one failed with: ", error, names);
  }

  BenchServeOptions options_;
  std::ostream& out_;
  Target target_;
  NumpyLegacyRandom numpy_;
  std::shared_ptr<const PromptTokenizer> tokenizer_;
  OrderedJson tokenizer_id_;
};

}  // namespace

void bench_serve(BenchServeOptions options, std::ostream& out) {
  BenchServe(std::move(options), out).run();
}

}  // namespace glint::bench
