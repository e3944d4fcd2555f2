// Many clients at once: 1,000 streams, the server's own cost of a token, hostile bytes beside good requests.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

#include "api_fixture.h"
#include "byte_tokenizer.h"

namespace glint {
namespace {

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void allow_many_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// The client side, in a process of its own so that its cost does not count: opens `streams` streams, reads
/// them to their end. Returns the number that ended with [DONE].
int read_streams(int port, int streams, const std::string& request) {
  allow_many_files();
  struct Client {
    int socket = -1;
    std::string tail;
  };
  std::vector<Client> clients(static_cast<size_t>(streams));
  const int poll = epoll_create1(0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const void* generic = &address;
  for (size_t i = 0; i < clients.size(); ++i) {
    clients[i].socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(clients[i].socket, static_cast<const sockaddr*>(generic), sizeof address) != 0) return -1;
    if (send(clients[i].socket, request.data(), request.size(), 0) != static_cast<ssize_t>(request.size()))
      return -2;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    epoll_ctl(poll, EPOLL_CTL_ADD, clients[i].socket, &event);
  }
  int done = 0;
  int open = streams;
  std::vector<epoll_event> events(256);
  char bytes[16384];
  while (open > 0) {
    const int ready = epoll_wait(poll, events.data(), static_cast<int>(events.size()), 60'000);
    if (ready <= 0) return -3;
    for (int i = 0; i < ready; ++i) {
      Client& client = clients[events[static_cast<size_t>(i)].data.u64];
      const ssize_t got = recv(client.socket, bytes, sizeof bytes, 0);
      if (got > 0) {
        client.tail.append(bytes, static_cast<size_t>(got));
        if (client.tail.size() > 64) client.tail.erase(0, client.tail.size() - 64);
        continue;
      }
      if (client.tail.find("data: [DONE]\n\n") != std::string::npos) ++done;
      close(client.socket);
      --open;
    }
  }
  return done;
}

class LoadTest : public ApiTest {
 protected:
  void SetUp() override {
    allow_many_files();
    automatic_steps = false;
  }

  /// Forks the client before any thread exists; it waits for the port.
  void fork_client(int streams) {
    ASSERT_EQ(pipe(to_client_), 0);
    ASSERT_EQ(pipe(from_client_), 0);
    OrderedJson body = user_request();
    body["stream"] = true;
    const std::string request = post_text("/v1/chat/completions", dump_json(body), "Connection: close\r\n");
    child_ = fork();
    if (child_ != 0) return;
    int server_port = 0;
    if (read(to_client_[0], &server_port, sizeof server_port) != sizeof server_port) _exit(1);
    const int done = read_streams(server_port, streams, request);
    if (write(from_client_[1], &done, sizeof done) != sizeof done) _exit(2);
    _exit(0);
  }
  void start_client() const {
    const int server_port = port();
    ASSERT_EQ(write(to_client_[1], &server_port, sizeof server_port),
              static_cast<ssize_t>(sizeof server_port));
  }
  int client_result() const {
    int done = -9;
    EXPECT_EQ(read(from_client_[0], &done, sizeof done), static_cast<ssize_t>(sizeof done));
    waitpid(child_, nullptr, 0);
    return done;
  }

 private:
  int to_client_[2] = {-1, -1};
  int from_client_[2] = {-1, -1};
  pid_t child_ = -1;
};

TEST_F(LoadTest, AThousandStreams) {
  constexpr int kStreams = 1000;
  constexpr size_t kTokens = 100;
  fork_client(kStreams);
  start();
  engine->limits_now.max_num_seqs = kStreams;
  engine->script = [](const EngineRequest& /*request*/) {
    FakeScript script = script_of("r</think>" + std::string(kTokens - 2, 'x'));
    return script;
  };
  const size_t before = resident_bytes();
  start_client();
  ASSERT_TRUE(eventually([&] { return engine->running() == kStreams; }, 30'000));
  const size_t waiting = resident_bytes();
  const double cpu = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kTokens; ++i) {
    engine->step();
    // An engine that waits for its clients, so that every token is a write of its own.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(client_result(), kStreams);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double tokens = static_cast<double>(kStreams) * static_cast<double>(kTokens);
  const double cpu_us = (cpu_seconds() - cpu) / tokens * 1e6;
  const double kib = static_cast<double>(std::max(resident_bytes(), waiting) - before) / kStreams / 1024;
  std::printf("server CPU per streamed token: %.2f us; memory per stream: %.1f KiB; %.1f s\n", cpu_us, kib,
              wall);
  RecordProperty("cpu_us_per_token", std::to_string(cpu_us));
  EXPECT_LT(kib, 64.0);
}

/// Mutated requests on a connection each, good ones beside them: nothing but 2xx, 4xx and 503, and no leak.
TEST_F(LoadTest, MutatedRequests) {
  automatic_steps = true;
  start();
  std::mt19937 random(20);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  OrderedJson rich = user_request("Hällo \xF0\x9F\x98\x80");
  rich.update(
      {{"model", "glm-5.3"},
       {"stream", true},
       {"temperature", 0.5},
       {"stop", {"a", "b"}},
       {"n", 2},
       {"tools", OrderedJson::parse(R"([{"type":"function","function":{"name":"f","parameters":{}}}])")},
       {"stream_options", {{"include_usage", true}}}});
  const std::vector<std::string> bodies = {dump_json(user_request()), dump_json(rich),
                                           R"({"prompt":[1,2,3],"max_tokens":3,"stream":false})"};
  int answered = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string body = bodies[below(bodies.size())];
    for (size_t edit = below(4); edit > 0 && !body.empty(); --edit) {
      const size_t at = below(body.size());
      switch (below(5)) {
        case 0:
          body[at] = static_cast<char>(below(256));
          break;
        case 1:
          body.erase(at, 1 + below(6));
          break;
        case 2:
          body.insert(at, 1 + below(3), "{}[],:\"0-e\\n"[below(11)]);
          break;
        case 3:
          body.insert(at, body.substr(below(body.size()), below(20)));
          break;
        default:
          body.resize(at + 1);
          break;
      }
    }
    RawClient client(port());
    client.send(
        post_text(below(2) == 0 ? "/v1/chat/completions" : "/v1/completions", body, "Connection: close\r\n"));
    if (below(10) == 0) continue;  // leaves
    const auto response = client.read();
    ASSERT_TRUE(response) << body;
    ++answered;
    EXPECT_TRUE(response->status == 200 || (response->status >= 400 && response->status < 500))
        << response->status << " " << body << " " << response->body;
  }
  EXPECT_GT(answered, 3000);
  EXPECT_EQ(chat(user_request()).status, 200);
  EXPECT_TRUE(eventually([&] { return service->open_requests() == 0 && engine->running() == 0; }));
  EXPECT_TRUE(eventually([&] { return service->http().connections() == 0; }));
}

}  // namespace
}  // namespace glint
