#include "serve_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <thread>

#include "base/log.h"
#include "base/progress.h"
#include "checkpoint/dummy_checkpoint.h"
#include "engine/plan_report.h"

namespace glint {

namespace {

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

constexpr double kOpenShare = 0.05;  // of the load: opening and checking; reading is most of the rest
constexpr double kReadShare = 0.9;
constexpr double kFetchShare = 0.9;  // of a load that downloads first
constexpr std::chrono::milliseconds kPoll{50};
constexpr std::chrono::seconds kDeadGrace{5};
constexpr std::chrono::milliseconds kFlushTimeout{2000};

std::string fixed(double value, int digits) {
  char text[64];
  const int bytes = std::snprintf(text, sizeof text, "%.*f", digits, value);
  return {text, static_cast<size_t>(bytes)};
}

/// SIGINT and SIGTERM, taken by the main thread only. Made before any other thread, which inherit the blocked
/// set.
class Signals {
 public:
  Signals() {
    std::signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  /// A signal that came within `timeout`, or 0.
  [[nodiscard]] int wait(std::chrono::milliseconds timeout) const {
    const timespec time{timeout.count() / 1000, (timeout.count() % 1000) * 1'000'000};
    const int signal = sigtimedwait(&set_, nullptr, &time);
    return signal < 0 ? 0 : signal;
  }

 private:
  sigset_t set_{};
};

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Ends at once, without the destructors that would wait for a step or a read.
[[noreturn]] void end_now(const std::string& why) {
  log_warning(why);
  stop_background_logging();
  std::_Exit(0);
}

/// What the watchdog does about a step that does not end, if it is told to.
[[noreturn]] void end_stuck() {
  log_error("watchdog: ending the process (--watchdog-action exit)");
  stop_background_logging();
  std::_Exit(1);
}

/// Before any weight is read: what the engine will hold.
void log_plan(const ServeOptions& options) {
  const MemoryPlan& plan = options.plan;
  for (const std::string& line : plan_lines(plan)) log_info(line);
  for (const std::string& note : plan.notes) log_info(note);
  for (const std::string& line : startup_lines(plan)) log_info(line);
  if (options.sglang_lines) log_info(sglang_startup_line(plan));
}

/// Loads the model beside the running HTTP server, and hands it over.
class Loader {
 public:
  Loader(const ServeOptions& options, ApiService& service) : options_(options), service_(service) {
    thread_ = std::thread([this] { run(); });
  }
  ~Loader() { join(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  [[nodiscard]] bool done() const { return done_; }
  void cancel() { cancelled_ = true; }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  /// After done(): the engine, or the failure is thrown.
  std::shared_ptr<Engine> engine() {
    join();
    if (failure_) std::rethrow_exception(failure_);
    return engine_;
  }

 private:
  /// Shows how far reading is.
  class Reading {
   public:
    Reading(Loader& loader, Clock::time_point load_begin) : loader_(loader), load_begin_(load_begin) {}
    /// False: the load was cancelled.
    bool update(int64_t done, int64_t total) {
      bar_.update(done, total);
      const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
      loader_.show("reading weights", kOpenShare + kReadShare * share, seconds_left(begin_, share));
      if (done == total && !std::exchange(ended_, true)) {
        bar_.finish(total);
        log_info("Loading weights took ", fixed(Seconds(Clock::now() - load_begin_).count(), 2), " seconds");
        loader_.show("starting the engine", kOpenShare + kReadShare);
      }
      return !loader_.cancelled_;
    }

   private:
    Loader& loader_;
    Clock::time_point load_begin_;
    Clock::time_point begin_ = Clock::now();
    Progress bar_{"Loading weights"};
    bool ended_ = false;
  };

  void run() {
    try {
      load();
    } catch (...) {
      failure_ = std::current_exception();
    }
    done_ = true;
  }

  void load() {
    if (!fetch()) return;
    const auto begin = Clock::now();
    show("opening the checkpoint", 0);
    const auto checkpoint = open_checkpoint();
    show("loading the tokenizer", kOpenShare / 2);
    ServedModel model = text_side(checkpoint->config());
    // A GPU's weights are read while they are copied to it, by the engine's start.
    const bool gpu = options_.plan.request.device.kind == DeviceKind::gpu;
    Reading reading(*this, begin);
    const auto progress = [&](int64_t done, int64_t total) { return reading.update(done, total); };
    if (!gpu) checkpoint->read_all(progress);
    if (cancelled_) return;
    const bool copied = gpu && !options_.dummy_weights;  // otherwise the device makes them
    if (!copied) show("starting the engine", kOpenShare + kReadShare);
    engine_ = make_engine(checkpoint, model.tokenizer, options_.plan, service_.sink(), nullptr,
                          copied ? WeightsProgress(progress) : nullptr);
    model.engine = engine_;
    service_.set_ready(std::move(model));
  }

  [[nodiscard]] std::shared_ptr<const Checkpoint> open_checkpoint() const {
    if (!options_.dummy_weights) return Checkpoint::open(folder_);
    log_warning("--load-format dummy: the weights are made, not read: answers mean nothing");
    return open_dummy_checkpoint(folder_, options_.plan.request.format);
  }

  /// Brings what is missing of a hub's model. False if the load was cancelled meanwhile.
  bool fetch() {
    if (options_.model.empty()) return true;
    ResolveOptions source = options_.source;
    if (options_.dummy_weights) source.files = ModelFiles::text;
    const auto begin = Clock::now();
    source.progress = [&](int64_t done, int64_t total) {
      const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
      show("downloading the model", share * kFetchShare, seconds_left(begin, share));
      return !cancelled_;
    };
    const std::optional<ResolvedModel> model = resolve_model(options_.model, source);
    if (!model) return false;
    folder_ = model->folder;
    if (model->source == ResolvedModel::Source::hub) fetched_share_ = kFetchShare;
    return true;
  }

  static std::optional<int64_t> seconds_left(Clock::time_point begin, double share) {
    if (share <= 0.01) return std::nullopt;
    return static_cast<int64_t>(Seconds(Clock::now() - begin).count() / share * (1 - share) + 0.999);
  }

  /// `share` of what comes after a download.
  void show(std::string stage, double share, std::optional<int64_t> eta_s = std::nullopt) {
    service_.set_progress({std::move(stage), fetched_share_ + (1 - fetched_share_) * share, eta_s});
  }

  ServedModel text_side(const ModelConfig& config) const {
    ServedModel model;
    model.tokenizer = Tokenizer::load(folder_);
    model.vocab_size = config.vocab_size;
    if (!config.eos_token_id.empty()) model.primary_eos = config.eos_token_id.front();
    model.eos.assign(config.eos_token_id.begin(), config.eos_token_id.end());
    model.grammars = std::make_shared<GrammarCache>(
        std::make_shared<const TokenTable>(model.tokenizer, model.eos, model.vocab_size));
    try {
      model.chat_template = options_.chat_template ? *options_.chat_template : ChatTemplate::load(folder_);
      log_info("Chat template: ", model.chat_template->note());
      model.tags = std::make_shared<const OutputTags>(*model.tokenizer);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_found) throw;
      log_warning(error.what(), "; chat requests will be refused");
    }
    if (options_.generation_config == "auto") {
      model.defaults = load_sampling_defaults(folder_);
    } else if (options_.generation_config != "vllm") {
      model.defaults = load_sampling_defaults(options_.generation_config);
    }
    set_sampling_defaults(options_.override_generation_config, "argument --override-generation-config",
                          model.defaults);
    return model;
  }

  const ServeOptions& options_;
  ApiService& service_;
  std::filesystem::path folder_ = options_.folder;
  double fetched_share_ = 0;
  std::shared_ptr<Engine> engine_;
  std::exception_ptr failure_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

/// The throughput lines, once a period.
class StatsTicker {
 public:
  explicit StatsTicker(std::chrono::seconds period) : period_(period) {}
  void tick(ApiService& service) {
    const auto now = Clock::now();
    if (period_.count() == 0 || now - last_ < period_) return;
    const double seconds = Seconds(now - last_).count();
    last_ = now;
    for (const StatsLog::Line& line : service.stats_lines(seconds)) {
      log(line.idle ? LogLevel::debug : LogLevel::info, line.text);
    }
  }

 private:
  const std::chrono::seconds period_;
  Clock::time_point last_ = Clock::now();
};

/// Returns false if a signal came first.
bool wait_for_load(Loader& loader, const Signals& signals) {
  while (!loader.done()) {
    if (signals.wait(kPoll) == 0) continue;
    log_info("Shutting down while the model loads");
    loader.cancel();
    const auto end = Clock::now() + kFlushTimeout;
    while (!loader.done() && Clock::now() < end) {
      if (signals.wait(kPoll) != 0) break;
    }
    if (!loader.done()) end_now("The load did not stop in time; ending at once");
    return false;
  }
  return true;
}

void wait_for_signal(const Engine& engine, ApiService& service, const ServeOptions& options,
                     const Signals& signals) {
  StatsTicker stats(options.stats_period);
  std::optional<Clock::time_point> died;
  for (;;) {
    if (const int signal = signals.wait(std::chrono::milliseconds(500)); signal != 0) {
      log_info("Received ", signal == SIGINT ? "SIGINT" : "SIGTERM");
      return;
    }
    stats.tick(service);
    if (engine.alive() || options.stay_when_dead) continue;
    if (!died) log_error("The engine has stopped; the server ends in ", kDeadGrace.count(), " seconds");
    died = died.value_or(Clock::now());
    if (Clock::now() - *died > kDeadGrace)
      fail(ErrorKind::internal, "the engine has stopped; see the log above");
  }
}

void drain(ApiService& service, std::chrono::seconds timeout, const Signals& signals) {
  service.begin_drain();
  const size_t open = service.open_requests();
  if (open > 0) {
    log_info("Waiting up to ", timeout.count(), " s for ", open, " requests; a second signal ends at once");
  }
  const auto end = Clock::now() + timeout;
  while (!service.wait_idle(kPoll) && Clock::now() < end) {
    if (signals.wait(std::chrono::milliseconds(1)) != 0) end_now("Second signal: ending at once");
  }
  if (service.wait_idle(std::chrono::milliseconds(0))) return;
  log_warning("The shutdown timeout is over: ", service.open_requests(), " requests are ended with an error");
  service.fail_rest();
  if (!service.wait_idle(kFlushTimeout)) log_warning("Some clients did not take their last answer");
}

bool is_one_of(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void log_ready(const ApiService& service, const ServeOptions& options) {
  std::string names;
  for (const std::string& name : options.api.model_names) names += (names.empty() ? "" : ", ") + name;
  log_info("Serving ", options.model.empty() ? options.folder : options.model, " as ", names);
  for (const std::string& alias : options.api.model_aliases) {
    if (!is_one_of(alias, options.api.model_names))
      log_info("Requests may call the model ", alias, ", too; --strict-model-name refuses that");
  }
  log_info("Available routes are:");
  for (const std::string& route : ApiService::route_list()) log_info("Route: ", route);
  log_info("Application startup complete.");
  // Scripts written for vLLM wait for exactly this line.
  log_info("Uvicorn running on ", service.http().url(), " (Press CTRL+C to quit)");
  if (options.sglang_lines) log_info("The server is fired up and ready to roll!");
}

}  // namespace

void run_server(ServeOptions options) {
  const Signals signals;
  raise_file_limit();
  start_background_logging();
  struct LogEnd {
    ~LogEnd() { stop_background_logging(); }
  } const log_end;

  std::shared_ptr<Engine> engine;
  // Binds: an address that cannot be had is the only line then.
  ApiService service(options.api, options.http, options.worker_threads);
  log_plan(options);
  service.set_access_log(options.access_log);
  service.set_watchdog_exit(end_stuck);
  service.start();
  log_info("Listening on ", service.http().url(), "; loading ",
           options.model.empty() ? options.folder : options.model);
  {
    Loader loader(options, service);
    if (!wait_for_load(loader, signals)) return;
    engine = loader.engine();
  }
  log_ready(service, options);
  wait_for_signal(*engine, service, options, signals);
  drain(service, options.shutdown_timeout, signals);
  service.stop();
  engine.reset();  // its last outputs go to the stopped service, which drops them
  log_info("Shutdown complete");
}

}  // namespace glint
