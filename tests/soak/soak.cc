// Random load on whole servers (HTTP, engine, model) for a number of minutes: clients that leave, tiny
// caches, speculation, a mix of streamed and whole answers. Every answer is compared with the one that the
// same request gets alone from a plain server; at the end of every phase nothing is left in the engine, no
// page is held, and the process has not grown.
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "base/json.h"
#include "base/log.h"
#include "metric_reader.h"
#include "random_requests.h"
#include "raw_client.h"
#include "server/api_service.h"
#include "support/temp_folder.h"

namespace glint::testing {
namespace {

using SteadyClock = std::chrono::steady_clock;

SteadyClock::time_point after_seconds(double seconds) {
  return SteadyClock::now() +
         std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds));
}

constexpr int kClients = 4;
constexpr int kPatienceMs = 120'000;  // a machine that does other work too is no fault
constexpr size_t kRequests = 600;     // different ones, so that what is known of them stops growing
constexpr double kWarmUpShare = 0.25;
constexpr double kGrowthMiBMax = 24;

struct Options {
  double minutes = 2;
  double phase_s = 12;
  uint32_t seed = 1;
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "soak: FAILED: %s\n", why.c_str());
  std::exit(1);
}

double resident_mib() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// What of an answer has to be the same.
struct Seen {
  std::string text, finish_reason;
  std::string stop_reason;  // as JSON
  int64_t completion_tokens = -1;
  bool operator==(const Seen&) const = default;
};

std::string shown(const Seen& seen) {
  return cat(seen.finish_reason, " ", seen.stop_reason, " ", seen.completion_tokens, " tokens: ", seen.text);
}

/// The checkpoint's files are opened once; a phase has servers of its own.
class Server {
 public:
  explicit Server(const EngineOptions& options) {
    ApiSettings settings;
    settings.model_names = {"soak"};
    settings.health.ready_within = std::chrono::milliseconds(200);
    HttpOptions http;
    http.host = "127.0.0.1";
    http.port = 0;
    http.threads = 2;
    service_ = std::make_unique<ApiService>(settings, http, 2);
    service_->set_access_log(false);
    service_->start();
    const auto checkpoint = Checkpoint::open(served_folder());
    ServedModel model;
    model.tokenizer = Tokenizer::load(served_folder());
    model.vocab_size = checkpoint->config().vocab_size;
    engine_ = make_engine(checkpoint, model.tokenizer, options, service_->sink());
    model.engine = engine_;
    service_->set_ready(std::move(model));
  }
  ~Server() { service_->stop(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int port() const { return service_->http().port(); }
  [[nodiscard]] EngineStats stats() const { return engine_->stats(); }
  [[nodiscard]] size_t open_requests() const { return service_->open_requests(); }

 private:
  std::unique_ptr<ApiService> service_;
  std::shared_ptr<Engine> engine_;
};

std::string body_of(const EngineRequest& request, bool stream) {
  const SamplingParams& s = request.sampling;
  OrderedJson body{{"prompt", request.prompt},
                   {"max_tokens", s.max_tokens},
                   {"temperature", static_cast<double>(s.temperature)},
                   {"top_k", s.top_k},
                   {"top_p", static_cast<double>(s.top_p)},
                   {"min_p", static_cast<double>(s.min_p)},
                   {"seed", *s.seed},
                   {"min_tokens", s.min_tokens},
                   {"ignore_eos", s.ignore_eos},
                   {"stop_token_ids", s.stop_token_ids},
                   {"stop", s.stop},
                   {"stream", stream}};
  if (!request.cache_salt.empty()) body["cache_salt"] = request.cache_salt;
  if (stream) body["stream_options"] = {{"include_usage", true}};
  return post_text("/v1/completions", dump_json(body));
}

void add_choice(Seen& seen, const OrderedJson& choice) {
  seen.text += choice.at("text").get<std::string>();
  if (choice.at("finish_reason").is_null()) return;
  seen.finish_reason = choice["finish_reason"];
  seen.stop_reason = choice.at("stop_reason").dump();
}

Seen read_answer(const RawResponse& response, bool stream) {
  if (response.status != 200) give_up(cat("status ", response.status, ": ", response.body));
  Seen seen;
  const auto take = [&](const OrderedJson& json) {
    if (json.contains("error")) give_up(json.dump());
    for (const OrderedJson& choice : json.at("choices")) add_choice(seen, choice);
    if (json.contains("usage") && json["usage"].is_object()) {
      seen.completion_tokens = json["usage"].at("completion_tokens");
    }
  };
  if (!stream) {
    take(OrderedJson::parse(response.body));
    return seen;
  }
  const std::vector<std::string> events = sse_events(response.body);
  if (events.empty() || events.back() != "[DONE]") give_up("a stream without its end: " + response.body);
  for (size_t i = 0; i + 1 < events.size(); ++i) take(OrderedJson::parse(events[i]));
  return seen;
}

Seen ask(int port, const EngineRequest& request, bool stream) {
  RawClient client(port, kPatienceMs);
  if (!client.send(body_of(request, stream))) give_up("the server does not take a request");
  const auto response = client.read();
  if (!response) give_up(cat("no answer to ", signature(request), " within ", kPatienceMs / 1000, " s"));
  return read_answer(*response, stream);
}

/// Sends a request and leaves, before or in the middle of its answer.
void ask_and_leave(int port, const EngineRequest& request, std::mt19937& random) {
  RawClient client(port, kPatienceMs);
  if (!client.send(body_of(request, random() % 3 != 0))) give_up("the server does not take a request");
  if (random() % 2 == 0) client.read_until("data: ", static_cast<int>(random() % 50));
  if (random() % 2 == 0) client.reset();
}

class Soak {
 public:
  explicit Soak(const Options& options) : options_(options), random_(options.seed) {
    for (size_t i = 0; i < kRequests; ++i) {
      requests_.push_back(random_request(random_));
      SamplingParams& sampling = requests_.back().sampling;
      sampling.min_tokens = std::min(sampling.min_tokens, sampling.max_tokens);  // as the API demands
    }
    answers_.resize(kRequests);
    EngineOptions plain = small_options();
    plain.max_model_len = 256;
    plain.prefix_caching = false;
    alone_ = std::make_unique<Server>(plain);
  }

  void run() {
    const auto end = after_seconds(60 * options_.minutes);
    const auto warm = after_seconds(60 * options_.minutes * kWarmUpShare);
    double first = 0;
    double last = 0;
    for (int phase = 1; SteadyClock::now() < end; ++phase) {
      run_phase(phase);
      last = resident_mib();
      if (first == 0 && SteadyClock::now() >= warm) first = last;
      std::printf(", resident %.1f MiB\n", last);
      std::fflush(stdout);
    }
    if (first == 0) first = last;
    std::printf(
        "soak: %llu answers compared, %llu clients left, %llu preemptions, %llu tokens from the cache, "
        "%llu from disk, "
        "%llu drafts (%llu confirmed); resident %.1f MiB after warm-up, %.1f MiB at the end\n",
        number(compared_), number(left_), number(preemptions_), number(hits_), number(restored_),
        number(drafts_), number(confirmed_), first, last);
    if (last > first + kGrowthMiBMax)
      give_up(cat("the process grew by ", last - first, " MiB after warm-up"));
    if (compared_ == 0 || left_ == 0 || preemptions_ == 0 || hits_ == 0 || drafts_ == 0) {
      give_up("the load did not meet what it is about: run longer");
    }
    std::printf("soak: PASSED\n");
  }

 private:
  static unsigned long long number(uint64_t value) { return value; }

  void run_phase(int phase) {
    const EngineOptions options = random_options(random_, served_folder(), disk_.path());
    const Server server(options);
    const auto end = after_seconds(options_.phase_s);
    const uint64_t compared_before = compared_;
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([&, seed = random_()] { client_loop(server, end, seed); });
    }
    for (std::thread& client : clients) client.join();
    check_empty(server);
    const EngineStats stats = server.stats();
    preemptions_ += stats.preemptions;
    hits_ += stats.prefix_hits_tokens;
    restored_ += stats.tier_hits_tokens;
    drafts_ += stats.drafts.draft_tokens;
    confirmed_ += stats.drafts.accepted_tokens;
    std::printf(
        "phase %d: %lld sequences, %lld drafts, %lld pages, caching %s: %llu answers, %llu preemptions",
        phase, static_cast<long long>(options.max_num_seqs),
        static_cast<long long>(options.num_speculative_tokens), static_cast<long long>(stats.pages_total),
        options.prefix_caching ? "on" : "off", number(compared_ - compared_before),
        number(stats.preemptions));
  }

  void client_loop(const Server& server, SteadyClock::time_point end, uint32_t seed) {
    std::mt19937 random(seed);
    while (SteadyClock::now() < end) {
      const size_t index = random() % kRequests;
      if (random() % 6 == 0) {
        ask_and_leave(server.port(), requests_[index], random);
        ++left_;
        continue;
      }
      const bool stream = random() % 2 == 0;
      const Seen together = ask(server.port(), requests_[index], stream);
      const Seen& single = alone(index);
      if (together != single) {
        give_up(cat("request ", signature(requests_[index]), "\n  alone:    ", shown(single),
                    "\n  together: ", shown(together)));
      }
      ++compared_;
    }
  }

  /// What the request gets alone; asked once.
  const Seen& alone(size_t index) {
    const std::lock_guard lock(mutex_);
    Seen& seen = answers_[index];
    if (seen.finish_reason.empty()) seen = ask(alone_->port(), requests_[index], false);
    return seen;
  }

  static void check_empty(const Server& server) {
    const auto empty = [&] {
      const EngineStats stats = server.stats();
      // The disk tier may hold pages a little longer, to write them.
      return stats.running == 0 && stats.waiting == 0 && stats.pages_used == 0 && server.open_requests() == 0;
    };
    for (int i = 0; i < 1000 && !empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const EngineStats stats = server.stats();
    if (!empty()) {
      give_up(cat(stats.running, " requests run and ", stats.waiting, " wait without a client; ",
                  stats.pages_used, " pages are held by nobody"));
    }
    if (stats.tier.damaged + stats.tier.read_errors + stats.tier.write_errors != 0)
      give_up("the disk tier failed");
    if (stats.stalls != 0) give_up(cat(stats.stalls, " steps without a row although requests waited"));
    if (stats.corrupted_requests != 0)
      give_up(cat(stats.corrupted_requests, " requests without usable logits"));
    for (const auto& [name, value] : read_metrics(fetch(server.port(), get_text("/metrics")).body)) {
      if (name.rfind("BAD", 0) == 0) give_up("the metrics page has a line that is none: " + name);
    }
  }

  const Options options_;
  const TempFolder disk_;
  std::mt19937 random_;
  std::vector<EngineRequest> requests_;
  std::vector<Seen> answers_;  // guarded by the mutex
  std::mutex mutex_;
  std::unique_ptr<Server> alone_;
  std::atomic<uint64_t> compared_{0}, left_{0};
  uint64_t preemptions_ = 0, hits_ = 0, restored_ = 0, drafts_ = 0, confirmed_ = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (flag == "--minutes") options.minutes = value;
    if (flag == "--seed") options.seed = static_cast<uint32_t>(value);
  }
  if (options.minutes <= 0) give_up("usage: glint_soak [--minutes M] [--seed N]");
  options.phase_s = std::min(30.0, 60 * options.minutes / 10);
  return options;
}

}  // namespace
}  // namespace glint::testing

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  glint::set_log_level(glint::LogLevel::off);
  try {
    glint::testing::Soak(glint::testing::parse(argc, argv)).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak: FAILED: %s\n", error.what());
    return 1;
  }
}
