#include "bench/serve/bench_serve.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <thread>

#include "base/error.h"
#include "bench/serve/load_preparation.h"
#include "bench/serve/serve_report.h"
#include "bench/serve/server_questions.h"
#include "text/python_json.h"

namespace glint::bench {

namespace {

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
        numpy_(options_.seed),
        preparation_(options_, target_, numpy_, out_) {}

  void run() {
    print_options(options_, out_);
    check_options(options_);
    if (options_.ready_check_timeout_s <= 0) check_reachable(target_);
    const std::vector<SampleRequest> requests = preparation_.run();
    if (!options_.sampling.contains("temperature")) {
      out_ << "WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. The "
              "default will be determined on the server side and can be model/API specific. For the old "
              "behavior, "
              "include --temperature=0.\n";
    }
    measure(requests);
  }

 private:
  LoadPlan plan_of(const std::vector<SampleRequest>& requests) {
    LoadPlan plan;
    plan.path = options_.endpoint;
    plan.headers = headers_of(options_);
    plan.format = is_chat(options_) ? StreamFormat::chat : StreamFormat::completions;
    plan.clock = options_.clock;
    plan.max_concurrency = options_.max_concurrency.value_or(0);
    PythonRandom python(options_.seed);
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto& lora = options_.lora_modules;
      std::string model = request_model(options_);
      if (!lora.empty())
        model = lora[options_.lora_round_robin ? i % lora.size() : python.below(lora.size())];
      LoadRequest entry;
      entry.body = request_body(options_, requests[i], model);
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
    test.body = request_body(options_, requests.front(), request_model(options_));
    test.request_id.clear();
    for (size_t i = 0; i < arrivals.size(); ++i) plan.requests[i].due_s = arrivals[i].due_s;

    out_ << "Starting initial single prompt test run...\n";
    check_ready(plan, test);
    warm_up(plan, test);
    out_ << "Starting main benchmark run...\n";
    if (options_.profile) profile("start_profile", "Starting profiler...", "Profiler started");
    print_traffic();

    ServeRun run;
    run.has_tokenizer = preparation_.tokenizer() != nullptr;
    const auto before = read_speculation_counts(metrics_text(target_, headers_of(options_)));
    set_hooks(plan, arrivals, run);
    run.probe = with_probe(plan, [&] { run.load = run_load(target_, plan); });
    run.speculation =
        speculation_between(before, read_speculation_counts(metrics_text(target_, headers_of(options_))));
    run.metrics = serve_metrics(run.load.outcomes, run.load.duration_s, preparation_.tokenizer(),
                                options_.result.goodput_ms);
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
      print_warning(cat("Endpoint is not ready. Error='", error, "'"));
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
    request.body = request_body(options_, hi, request_model(options_));
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
    ask.headers = headers_of(options_);
    const HttpReply reply = fetch(target_, ask);
    if (reply.ok()) {
      out_ << done << "\n";
    } else {
      print_warning(cat(ask.path, ": ", failure_text(reply)));
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
    OrderedJson all = result_head(options_, date, preparation_.tokenizer_id());
    for (auto& [key, value] : result.items()) all[key] = std::move(value);
    save_result(options_, std::move(all), date);
  }

  [[noreturn]] void fail_all(const ServeRun& run) {
    const std::string& error = run.load.outcomes.front().error;
    std::string names;
    if (error.starts_with("404")) {
      for (const ServedModelEntry& model : served_models(target_, headers_of(options_))) {
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
  LoadPreparation preparation_;
};

}  // namespace

void bench_serve(BenchServeOptions options, std::ostream& out) {
  BenchServe(std::move(options), out).run();
}

}  // namespace glint::bench
