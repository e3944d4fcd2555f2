// Throws mutated requests at a whole API server: http_fuzz [--requests N] [--seed S] [--only INDEX].
//
// Every request must get an answer that is not 5xx (503 is allowed) or the end of its connection; now and
// then, and at the end, correct requests must get their correct answers, and nothing may be left behind. A
// request is known by seed and index: --only sends that one alone and prints it.
#include <fcntl.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <mutex>
#include <thread>

#include "api_fixture.h"
#include "base/log.h"
#include "byte_tokenizer.h"
#include "request_mutator.h"

namespace glint {
namespace {

using Ms = std::chrono::milliseconds;

constexpr int kClients = 8;
constexpr int kPatienceMs = 5000;
constexpr size_t kProbeEvery = 250;
constexpr int kFailuresMax = 10;

struct Settings {
  size_t requests = 20'000;
  uint64_t seed = 1;
  std::optional<size_t> only;
};

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 4000)) {
    if (c == '\n' || (c >= ' ' && c <= '~')) {
      out += c;
    } else {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(c));
      out += hex;
    }
  }
  return out;
}

/// The server under test, with everything on that reads what clients send.
class Target {
 public:
  Target() {
    set_log_level(LogLevel::off);
    ApiSettings settings;
    settings.model_names = {"glm-5.3"};
    settings.model_root = "fuzz";
    settings.health.ready_within = Ms(0);
    settings.front.request_ids = true;
    settings.front.root_path = "/prefix";
    settings.prompt_tokens_details = true;
    HttpOptions http;
    http.host = "127.0.0.1";
    http.port = 0;
    http.body_bytes_max = size_t{1} << 20;
    // Most cut requests should cost the run little time.
    http.header_timeout = http.body_stall_timeout = http.idle_timeout = Ms(60);
    http.linger_timeout = Ms(500);
    service_ = std::make_unique<ApiService>(settings, http, 2);
    service_->start();
    tokenizer_ = std::make_shared<ByteTokenizer>();
    engine_ = std::make_shared<FakeEngine>(service_->sink(), tokenizer_);
    engine_->run(std::chrono::microseconds(300));
    ServedModel model;
    model.engine = engine_;
    model.tokenizer = tokenizer_;
    model.chat_template = ChatTemplate::glm53();
    model.tags = std::make_shared<const OutputTags>(*tokenizer_);
    model.primary_eos = kEndOfText;
    model.vocab_size = 154880;
    service_->set_ready(std::move(model));
  }
  ~Target() {
    service_->stop();
    engine_.reset();
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  [[nodiscard]] int port() const { return service_->http().port(); }
  [[nodiscard]] bool idle() const {
    return service_->open_requests() == 0 && engine_->running() == 0 && service_->http().connections() == 0;
  }

 private:
  std::unique_ptr<ApiService> service_;
  std::shared_ptr<ByteTokenizer> tokenizer_;
  std::shared_ptr<FakeEngine> engine_;
};

class Run {
 public:
  Run(const Settings& settings, const Target& target) : settings_(settings), target_(target) {}

  int all() {
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) clients.emplace_back([this] { work(); });
    for (std::thread& client : clients) client.join();
    probe();
    if (!eventually([&] { return target_.idle(); }, 10'000)) fail_run("something is left behind", "");
    std::printf("http_fuzz: seed %llu, %zu requests, %d failures; answers:",
                static_cast<unsigned long long>(settings_.seed), next_.load(), failures_.load());
    for (size_t status = 0; status < statuses_.size(); ++status) {
      if (statuses_[status] > 0) std::printf(" %zu: %d", status, statuses_[status].load());
    }
    std::printf("\n");
    return failures_ == 0 ? 0 : 1;
  }

  int one(size_t index) {
    RequestMutator mutator = mutator_of(index);
    const std::string text = mutator.next();
    std::cout << printable(text) << "\n--- answered:\n";
    RawClient client(target_.port(), kPatienceMs);
    client.send(text);
    while (const auto answer = client.read()) std::cout << answer->status << " " << answer->body << "\n";
    return 0;
  }

 private:
  RequestMutator mutator_of(size_t index) const {
    static const std::vector<std::string> kRoutes = ApiService::route_list();
    return {kRoutes, settings_.seed * 1'000'003 + index};
  }

  void work() {
    for (size_t index = next_++; index < settings_.requests && failures_ < kFailuresMax; index = next_++) {
      RequestMutator mutator = mutator_of(index);
      try {
        send(mutator, mutator.next(), index);
      } catch (const std::exception& failure) {
        fail_run(cat("request ", index, ": ", failure.what()), "");
      }
      if (index % kProbeEvery == 0) probe();
    }
    if (next_ > settings_.requests) next_ = settings_.requests;
  }

  void send(RequestMutator& mutator, const std::string& text, size_t index) {
    RawClient client(target_.port(), kPatienceMs);
    if (mutator.once_in(12)) {  // in pieces
      const size_t cut = mutator.below(text.size() + 1);
      client.send(std::string_view(text).substr(0, cut));
      std::this_thread::sleep_for(Ms(1));
      client.send(std::string_view(text).substr(cut));
    } else {
      client.send(text);
    }
    if (mutator.once_in(15)) return mutator.once_in(2) ? client.reset() : client.close();
    if (mutator.once_in(15)) client.shutdown_write();
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      const std::string head = client.read_until("\r\n\r\n", kPatienceMs);
      if (head.empty()) break;
      check(head, text, index);
      // Bodies are not looked at here: what follows is the next answer's head, or the end.
      if (!skip_body(client, head, text)) break;
    }
    if (std::chrono::steady_clock::now() - begin > Ms(kPatienceMs)) {
      fail_run(cat("request ", index, " was not answered in time"), text);
    }
  }

  /// False: the connection ends behind this answer.
  static bool skip_body(RawClient& client, const std::string& head, const std::string& request) {
    const auto length = head.find("Content-Length: ");
    if (head.find(" 100 ") == 8) return true;
    if (head.find("Transfer-Encoding: chunked") != std::string::npos) {
      client.read_until("\r\n0\r\n\r\n", kPatienceMs);
    } else if (length != std::string::npos && request.compare(0, 4, "HEAD") != 0) {
      const auto bytes = static_cast<size_t>(std::atoll(head.c_str() + length + 16));
      client.take_exactly(bytes);
    }
    return head.find("Connection: close") == std::string::npos;
  }

  void check(const std::string& head, const std::string& request, size_t index) {
    if (head.compare(0, 9, "HTTP/1.1 ") != 0 || head.size() < 12) {
      return fail_run(cat("request ", index, ": not an answer: ", printable(head.substr(0, 200))), request);
    }
    const int status = std::atoi(head.c_str() + 9);
    if (status < 100 || status > 599) {
      return fail_run(cat("request ", index, ": status ", status), request);
    }
    ++statuses_[static_cast<size_t>(status)];
    if (status >= 500 && status != 503) {
      fail_run(cat("request ", index, " was answered with ", status), request);
    }
  }

  /// A correct request gets its correct answer.
  void probe() {
    OrderedJson body = user_request("probe");
    const RawResponse answer =
        fetch(target_.port(), post_text("/v1/chat/completions", dump_json(body), "Connection: close\r\n"));
    const bool good =
        answer.status == 200 && OrderedJson::parse(answer.body)["choices"][0]["finish_reason"] == "stop";
    if (!good) fail_run(cat("a correct request got ", answer.status, " ", answer.body), "");
  }

  void fail_run(const std::string& what, const std::string& request) {
    ++failures_;
    const std::lock_guard lock(mutex_);
    std::cout << "seed " << settings_.seed << ": " << what << "\n"
              << printable(request) << "\n"
              << std::flush;
  }

  const Settings settings_;
  const Target& target_;
  std::atomic<size_t> next_{0};
  std::atomic<int> failures_{0};
  std::array<std::atomic<int>, 600> statuses_{};
  std::mutex mutex_;
};

Settings parse(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view name = arguments[i];
    const auto number = std::strtoull(arguments[i + 1], nullptr, 10);
    if (name == "--requests") settings.requests = number;
    if (name == "--seed") settings.seed = number;
    if (name == "--only") settings.only = number;
  }
  return settings;
}

}  // namespace
}  // namespace glint

int main(int count, char** arguments) {
  const glint::Settings settings = glint::parse(count, arguments);
  std::printf("http_fuzz: seed %llu, %zu requests\n", static_cast<unsigned long long>(settings.seed),
              settings.requests);
  std::fflush(stdout);
  const glint::Target target;
  glint::Run run(settings, target);
  return settings.only ? run.one(*settings.only) : run.all();
}
