#include "bench/serve/load_client.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "bench/serve/load_gate.h"

namespace glint::bench {

namespace {

constexpr size_t kConnectionsOfThread = 256;
constexpr size_t kIdleMax = 256;
constexpr double kIdle_s = 60;

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string text_of(const Target& target, const LoadPlan& plan, const LoadRequest& request) {
  HttpAsk ask;
  ask.method = "POST";
  ask.path = plan.path;
  ask.headers = plan.headers;
  if (!request.request_id.empty()) ask.headers.emplace_back("x-request-id", request.request_id);
  ask.body = request.body;
  return request_text(target.url(), ask);
}

/// What a refusal says: the reason, and the server's own words.
std::string refusal_text(const HttpReader& reader, const std::string& body) {
  HttpReply reply;
  reply.status = reader.status();
  reply.reason = reader.reason();
  reply.body = body;
  return failure_text(reply);
}

/// One connection, and the request that it carries, if any.
struct Flight {
  explicit Flight(const Target& target) : connection(target) {}
  Connection connection;
  bool registered_for_write = false;
  bool used_before = false;
  double idle_since_s = 0;

  std::optional<size_t> index;
  std::string text;
  size_t sent = 0;
  HttpReader reader;
  std::optional<StreamListener> listener;
  std::string refusal;  // body of an answer that is no stream
};

/// One thread with its connections.
class Worker {
 public:
  Worker(const Target& target, const LoadPlan& plan, LoadGate& gate, std::vector<RequestOutcome>& outcomes)
      : target_(target), plan_(plan), gate_(gate), outcomes_(outcomes) {
    poll_ = epoll_create1(EPOLL_CLOEXEC);
    wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (poll_ < 0 || wake_ < 0) fail(ErrorKind::io, "cannot make an epoll or eventfd: too many open files?");
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(poll_, EPOLL_CTL_ADD, wake_, &event);
    thread_ = std::thread([this] { loop(); });
  }
  ~Worker() {
    post(kEnd, 0);
    thread_.join();
    close(poll_);
    close(wake_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start(size_t index, double since_s) { post(index, since_s); }

 private:
  static constexpr size_t kEnd = SIZE_MAX;

  void post(size_t index, double since_s) {
    {
      const std::lock_guard lock(mutex_);
      inbox_.push_back({index, since_s});
    }
    const uint64_t one = 1;
    static_cast<void>(!::write(wake_, &one, sizeof one));
  }

  void loop() {
    std::array<epoll_event, 256> events;
    double swept_s = now_s();
    while (!ended_) {
      const int ready = epoll_wait(poll_, events.data(), static_cast<int>(events.size()), 1000);
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<size_t>(i)];
        if (event.data.ptr == nullptr) {
          take_inbox();
        } else {
          go_on(*static_cast<Flight*>(event.data.ptr));
        }
        begin_next();
      }
      gone_.clear();
      if (now_s() - swept_s > 1) {
        swept_s = now_s();
        sweep(swept_s);
      }
    }
  }

  void take_inbox() {
    uint64_t count = 0;
    static_cast<void>(!::read(wake_, &count, sizeof count));
    std::vector<LoadGate::Waiting> arrived;
    {
      const std::lock_guard lock(mutex_);
      arrived.swap(inbox_);
    }
    for (const LoadGate::Waiting& entry : arrived) {
      if (entry.index == kEnd) {
        ended_ = true;
      } else {
        begin(entry);
      }
    }
  }

  void begin(const LoadGate::Waiting& entry) {
    RequestOutcome& outcome = outcomes_[entry.index];
    outcome.prompt_tokens = plan_.requests[entry.index].prompt_tokens;
    std::string text = text_of(target_, plan_, plan_.requests[entry.index]);
    outcome.start_s = now_s();
    outcome.queue_s = outcome.start_s - entry.since_s;
    launch(entry.index, std::move(text), true);
  }

  void launch(size_t index, std::string text, bool may_reuse) {
    Flight& flight = may_reuse ? idle_or_new() : make();
    flight.index = index;
    flight.text = std::move(text);
    flight.sent = 0;
    flight.reader = HttpReader();
    flight.listener.emplace(plan_.format, plan_.clock);
    flight.refusal.clear();
    go_on(flight);
  }

  Flight& idle_or_new() {
    if (idle_.empty()) return make();
    Flight* flight = idle_.back();
    idle_.pop_back();
    return *flight;
  }

  Flight& make() {
    flights_.push_back(std::make_unique<Flight>(target_));
    Flight& flight = *flights_.back();
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &flight;
    epoll_ctl(poll_, EPOLL_CTL_ADD, flight.connection.handle(), &event);
    return flight;
  }

  void watch_writing(Flight& flight, bool on) {
    if (flight.registered_for_write == on) return;
    flight.registered_for_write = on;
    epoll_event event{};
    event.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.ptr = &flight;
    epoll_ctl(poll_, EPOLL_CTL_MOD, flight.connection.handle(), &event);
  }

  void go_on(Flight& flight) {
    if (!flight.index) return check_idle(flight);
    if (!write(flight)) return;
    read(flight);
  }

  /// An idle connection has something to say: as a rule that it is closed.
  void check_idle(Flight& flight) {
    if (std::find(idle_.begin(), idle_.end(), &flight) == idle_.end()) return;  // dropped in this round
    std::array<char, 256> bytes;
    const auto result = flight.connection.read(bytes);
    if (result.io == Connection::Io::want_read || result.io == Connection::Io::want_write) return;
    std::erase(idle_, &flight);
    drop(flight);
  }

  /// False if the request is over.
  bool write(Flight& flight) {
    while (flight.sent < flight.text.size()) {
      const auto result = flight.connection.write(std::string_view(flight.text).substr(flight.sent));
      if (result.io == Connection::Io::done) {
        flight.sent += result.bytes;
      } else if (result.io == Connection::Io::want_write) {
        watch_writing(flight, true);
        return true;
      } else if (result.io == Connection::Io::want_read) {
        return true;
      } else {
        // Perhaps the server has refused the request before it read all of it.
        flight.sent = flight.text.size();
      }
    }
    watch_writing(flight, false);
    return true;
  }

  void read(Flight& flight) {
    RequestOutcome& outcome = outcomes_[*flight.index];
    while (flight.index) {
      const auto result = flight.connection.read(bytes_);
      const double at_s = now_s();
      switch (result.io) {
        case Connection::Io::done: {
          const auto body = [&](std::string_view piece) {
            if (flight.reader.status() == 200) {
              flight.listener->feed(piece, at_s, outcome);
            } else {
              flight.refusal.append(piece);
            }
          };
          if (!flight.reader.feed({bytes_.data(), result.bytes}, body)) {
            return broken(flight, flight.reader.error());
          }
          if (flight.reader.done()) return complete(flight);
          break;
        }
        case Connection::Io::want_write:
          watch_writing(flight, true);
          return;
        case Connection::Io::want_read:
          return;
        case Connection::Io::closed:
          if (flight.reader.end_of_connection()) return complete(flight);
          return broken(flight, flight.reader.begun() ? "the connection ended inside the answer"
                                                      : "the server closed the connection without an answer");
        case Connection::Io::failed:
          return broken(flight, flight.connection.error());
      }
    }
  }

  void complete(Flight& flight) {
    RequestOutcome& outcome = outcomes_[*flight.index];
    if (flight.reader.status() == 200) {
      flight.listener->finish(outcome);
    } else {
      outcome.error = refusal_text(flight.reader, flight.refusal);
    }
    const bool keep =
        flight.reader.keep_alive() && flight.sent == flight.text.size() && idle_.size() < kIdleMax;
    over(flight, keep);
  }

  void broken(Flight& flight, const std::string& why) {
    if (flight.used_before && !flight.reader.begun()) {  // closed while it was idle: once more on a new one
      const size_t index = *flight.index;
      std::string text = std::move(flight.text);
      flight.index.reset();
      drop(flight);
      return launch(index, std::move(text), false);
    }
    RequestOutcome& outcome = outcomes_[*flight.index];
    if (outcome.error.empty()) outcome.error = why;
    over(flight, false);
  }

  void over(Flight& flight, bool keep) {
    flight.index.reset();
    flight.text.clear();
    if (keep) {
      flight.used_before = true;
      flight.idle_since_s = now_s();
      idle_.push_back(&flight);
    } else {
      drop(flight);
    }
    if (const auto next = gate_.leave()) next_.push_back(*next);
  }

  /// Those whose turn has come. Not from within over(): requests that fail at once would pile up on the
  /// stack.
  void begin_next() {
    while (!next_.empty()) {
      const LoadGate::Waiting entry = next_.front();
      next_.pop_front();
      begin(entry);
    }
  }

  /// Freed at the end of the round: later events of it may still name the connection.
  void drop(Flight& flight) {
    epoll_ctl(poll_, EPOLL_CTL_DEL, flight.connection.handle(), nullptr);
    const auto found =
        std::find_if(flights_.begin(), flights_.end(), [&](const auto& one) { return one.get() == &flight; });
    gone_.push_back(std::move(*found));
    flights_.erase(found);
  }

  /// Once a second: requests out of time, connections idle for long.
  void sweep(double now) {
    std::vector<Flight*> late;
    for (const auto& flight : flights_) {
      if (flight->index && now - outcomes_[*flight->index].start_s > plan_.timeout_s)
        late.push_back(flight.get());
    }
    for (Flight* flight : late) {
      flight->used_before = false;
      broken(*flight, cat("no complete answer within ", plan_.timeout_s, " s"));
    }
    while (!idle_.empty() && now - idle_.front()->idle_since_s > kIdle_s) {
      Flight* flight = idle_.front();
      idle_.erase(idle_.begin());
      drop(*flight);
    }
    begin_next();
    gone_.clear();
  }

  const Target& target_;
  const LoadPlan& plan_;
  LoadGate& gate_;
  std::vector<RequestOutcome>& outcomes_;
  int poll_ = -1, wake_ = -1;
  std::mutex mutex_;  // guards the next
  std::vector<LoadGate::Waiting> inbox_;
  std::vector<std::unique_ptr<Flight>> flights_, gone_;
  std::vector<Flight*> idle_;
  std::deque<LoadGate::Waiting> next_;
  std::array<char, 65536> bytes_{};
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

LoadResult run_load(const Target& target, const LoadPlan& plan) {
  constexpr double kProgress_s = 0.1;
  raise_file_limit();
  LoadResult result;
  result.outcomes.resize(plan.requests.size());
  LoadGate gate(plan.requests.size(), plan.max_concurrency);
  size_t at_once = plan.requests.size();
  if (plan.max_concurrency > 0) at_once = std::min(at_once, static_cast<size_t>(plan.max_concurrency));
  std::vector<std::unique_ptr<Worker>> workers;
  for (size_t i = 0; i < std::max<size_t>(1, (at_once + kConnectionsOfThread - 1) / kConnectionsOfThread);
       ++i) {
    workers.push_back(std::make_unique<Worker>(target, plan, gate, result.outcomes));
  }
  const auto show = [&](size_t left) {
    if (plan.on_progress) plan.on_progress(plan.requests.size() - left);
  };
  const double begin_s = now_s();
  for (size_t i = 0; i < plan.requests.size(); ++i) {
    const double due_s = begin_s + plan.requests[i].due_s;
    while (now_s() < due_s) show(gate.wait(std::min(due_s, now_s() + kProgress_s)));
    if (plan.on_due) plan.on_due(i);
    const double arrived_s = now_s();
    if (gate.enter(i, arrived_s)) workers[i % workers.size()]->start(i, arrived_s);
  }
  for (size_t left = 1; left > 0;) {
    left = gate.wait(now_s() + kProgress_s);
    if (left == 0) result.duration_s = now_s() - begin_s;
    show(left);
  }
  return result;
}

RequestOutcome run_one(const Target& target, const LoadPlan& plan, const LoadRequest& request) {
  LoadPlan single;
  single.path = plan.path;
  single.headers = plan.headers;
  single.format = plan.format;
  single.clock = plan.clock;
  single.timeout_s = plan.timeout_s;
  single.requests = {request};
  single.requests.front().due_s = 0;
  return std::move(run_load(target, single).outcomes.front());
}

}  // namespace glint::bench
