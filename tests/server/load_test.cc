// Many clients at once: 1,000 streams, what they take of memory and the server's own cost of a token.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "../support/temp_folder.h"
#include "api_fixture.h"
#include "byte_tokenizer.h"
#include "test_certificates.h"

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
int read_streams(int port, int streams, const std::string& request, SSL_CTX* tls) {
  allow_many_files();
  struct Client {
    int socket = -1;
    std::shared_ptr<SSL> ssl;
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
    if (tls != nullptr) {
      clients[i].ssl = std::shared_ptr<SSL>(SSL_new(tls), SSL_free);
      SSL_set_fd(clients[i].ssl.get(), clients[i].socket);
      if (SSL_connect(clients[i].ssl.get()) != 1) return -4;
    }
    const ssize_t sent =
        tls != nullptr ? SSL_write(clients[i].ssl.get(), request.data(), static_cast<int>(request.size()))
                       : send(clients[i].socket, request.data(), request.size(), 0);
    if (sent != static_cast<ssize_t>(request.size())) return -2;
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
      const ssize_t got = tls != nullptr ? SSL_read(client.ssl.get(), bytes, sizeof bytes)
                                         : recv(client.socket, bytes, sizeof bytes, 0);
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
    std::shared_ptr<SSL_CTX> tls;
    if (http.tls.on()) tls = client_tls(nullptr);
    int server_port = 0;
    if (read(to_client_[0], &server_port, sizeof server_port) != sizeof server_port) _exit(1);
    const int done = read_streams(server_port, streams, request, tls.get());
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

  void thousand_streams();

 private:
  int to_client_[2] = {-1, -1};
  int from_client_[2] = {-1, -1};
  pid_t child_ = -1;
};

void LoadTest::thousand_streams() {
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
  size_t most = resident_bytes();
  const double cpu = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kTokens; ++i) {
    engine->step();
    // An engine that waits for its clients, so that every token is a write of its own.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (i % 10 == 0) most = std::max(most, resident_bytes());
  }
  EXPECT_EQ(client_result(), kStreams);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double tokens = static_cast<double>(kStreams) * static_cast<double>(kTokens);
  const double cpu_us = (cpu_seconds() - cpu) / tokens * 1e6;
  const double kib = static_cast<double>(most - before) / kStreams / 1024;
  std::printf("%s: server CPU per streamed token: %.2f us; memory per stream: %.1f KiB; %.1f s\n",
              http.tls.on() ? "TLS" : "plain", cpu_us, kib, wall);
  RecordProperty("cpu_us_per_token", std::to_string(cpu_us));
  EXPECT_LT(kib, http.tls.on() ? 96.0 : 64.0);
}

TEST_F(LoadTest, AThousandStreams) {
  thousand_streams();
}

TEST_F(LoadTest, AThousandStreamsOverTls) {
  const TempFolder folder;
  const TestCertificate identity("localhost");
  http.tls.certfile = folder.path() / "cert.pem";
  http.tls.keyfile = folder.path() / "key.pem";
  identity.write_certificate(http.tls.certfile);
  identity.write_key(http.tls.keyfile);
  thousand_streams();
}

}  // namespace
}  // namespace glint
