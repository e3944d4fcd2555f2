// Clients that mean no good, or know no better, beyond what http_test.cc has.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <deque>
#include <fstream>

#include "base/error.h"
#include "echo_fixture.h"

namespace glint {
namespace {

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(HttpTest, Targets) {
  start();
  EXPECT_EQ(fetch(port(), "GET http://host:80/abs?q=1 HTTP/1.1\r\n\r\n").body, "GET /abs ");
  EXPECT_EQ(fetch(port(), "GET http://host HTTP/1.1\r\n\r\n").body, "GET / ");
  EXPECT_EQ(fetch(port(), "OPTIONS * HTTP/1.1\r\n\r\n").body, "OPTIONS * ");
  EXPECT_EQ(fetch(port(), "GET //a/../b?x#y HTTP/1.1\r\n\r\n").body, "GET //a/../b ");
  EXPECT_EQ(fetch(port(), "CONNECT host:80 HTTP/1.1\r\n\r\n").status, 400);
  EXPECT_EQ(fetch(port(), "GET host:80 HTTP/1.1\r\n\r\n").status, 400);
  EXPECT_EQ(fetch(port(), "PURGE /x HTTP/1.1\r\n\r\n").body, "PURGE /x ");
}

TEST_F(HttpTest, LyingLengths) {
  HttpOptions options;
  options.body_stall_timeout = Ms(100);
  start(options);
  // Longer than told: the rest is no request.
  RawClient longer(port());
  ASSERT_TRUE(longer.send("POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nabcdef\r\n\r\n"));
  EXPECT_EQ(longer.read()->body, "POST /a ab");
  EXPECT_EQ(longer.read()->status, 400);
  EXPECT_TRUE(longer.closed_within(2000));
  RawClient shorter(port());
  ASSERT_TRUE(shorter.send("POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nabcdef"));
  EXPECT_EQ(shorter.read()->status, 408);
  for (const char* length : {"+5", "0x5", "5 5", "5,6", "", "18446744073709551616", "1e1", "-0"}) {
    EXPECT_EQ(fetch(port(), cat("POST /a HTTP/1.1\r\nContent-Length: ", length, "\r\n\r\nabcde")).status, 400)
        << length;
  }
}

TEST_F(HttpTest, AnnouncedBodiesTakeNoMemory) {
  start();
  const size_t before = resident_bytes();
  std::vector<RawClient> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back(port());
    ASSERT_TRUE(clients.back().send("POST /a HTTP/1.1\r\nContent-Length: 60000000\r\n\r\nx"));
  }
  ASSERT_TRUE(eventually([&] { return handler.screened == 50; }));
  EXPECT_LT(resident_bytes(), before + (size_t{16} << 20));
}

TEST_F(HttpTest, HeadersTwice) {
  start();
  // Which of two framings is meant nobody knows: that is how requests are smuggled past a proxy.
  for (const char* lines :
       {"Content-Length: 5\r\nContent-Length: 6", "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity, chunked, identity", "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity", "Host: a\r\nHost: b"}) {
    RawClient client(port());
    ASSERT_TRUE(client.send(cat("POST /a HTTP/1.1\r\n", lines, "\r\n\r\n0\r\n\r\n")));
    const auto answer = client.read();
    ASSERT_TRUE(answer) << lines;
    EXPECT_EQ(answer->status, 400) << lines;
    EXPECT_TRUE(client.closed_within(2000)) << lines;
  }
  EXPECT_EQ(fetch(port(), "GET /a HTTP/1.1\r\nX: 1\r\nX: 2\r\nCookie: a\r\nCookie: b\r\n\r\n").status, 200);
}

TEST_F(HttpTest, UpgradesAreNotTaken) {
  start();
  RawClient client(port());
  ASSERT_TRUE(
      client.send(get_text("/ws",
                           "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n") +
                  get_text("/next", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n")));
  EXPECT_EQ(client.read()->body, "GET /ws ");
  EXPECT_EQ(client.read()->body, "GET /next ");
}

TEST_F(HttpTest, ManyStreamsReset) {
  start();
  constexpr int kStreams = 200;
  std::vector<RawClient> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.emplace_back(port());
    ASSERT_TRUE(clients.back().send(get_text("/stream")));
  }
  ASSERT_TRUE(eventually([&] { return handler.handled == kStreams; }));
  std::vector<std::shared_ptr<HttpExchange>> exchanges;
  {
    const std::lock_guard lock(handler.mutex);
    exchanges = handler.held;
  }
  std::atomic<bool> end{false};
  std::thread sender([&] {
    while (!end) {
      for (const auto& exchange : exchanges) {
        exchange->post([exchange] { exchange->send("data: x\n\n"); });
      }
      std::this_thread::sleep_for(Ms(1));
    }
  });
  for (RawClient& client : clients) client.reset();
  EXPECT_TRUE(eventually([&] { return handler.gone == kStreams; }));
  end = true;
  sender.join();
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
  EXPECT_EQ(server->counts().clients_gone, static_cast<uint64_t>(kStreams));
}

TEST_F(HttpTest, PipelinesOfOneWhoNeverReads) {
  start();
  const size_t before = resident_bytes();
  const std::string batch = [] {
    std::string text;
    for (int i = 0; i < 100; ++i) text += post_text("/p", std::string(8000, 'x'));
    return text;
  }();
  RawClient greedy(port(), 300);
  for (int i = 0; i < 1000 && greedy.send(batch); ++i) {
  }
  EXPECT_LT(handler.handled, 100'000);
  EXPECT_LT(resident_bytes(), before + (size_t{16} << 20));
  EXPECT_EQ(fetch(port(), get_text("/other")).body, "GET /other ");
}

TEST_F(HttpTest, ManySlowHeadersDelayNobody) {
  start();
  std::vector<RawClient> slow;
  for (int i = 0; i < 300; ++i) {
    slow.emplace_back(port());
    ASSERT_TRUE(slow.back().send("GET / HTTP/1.1\r\nX: "));
  }
  for (int i = 0; i < 20; ++i) {
    for (RawClient& client : slow) client.send("y");
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(fetch(port(), get_text("/quick")).status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, Ms(1000));
  }
}

TEST_F(HttpTest, IdleConnectionsMakeRoom) {
  HttpOptions options;
  options.connections_max = 32;
  options.idle_grace = Ms(200);
  start(options);
  std::vector<RawClient> idle;
  for (int i = 0; i < 31; ++i) idle.emplace_back(port());
  RawClient busy(port());
  ASSERT_TRUE(busy.send(get_text("/hold")));
  ASSERT_TRUE(eventually([&] { return server->connections() == 32 && handler.first_held() != nullptr; }));
  // Another 20 want in: the longest idle go, one that waits for its answer stays.
  std::vector<RawClient> next;
  for (int i = 0; i < 20; ++i) {
    next.emplace_back(port());
    ASSERT_TRUE(next.back().send(get_text("/in", "Connection: close\r\n")));
  }
  for (RawClient& client : next) EXPECT_EQ(client.read()->body, "GET /in ");
  const auto exchange = handler.first_held();
  exchange->post([exchange] { exchange->respond({200, "text/plain", "still here", {}, false}); });
  EXPECT_EQ(busy.read()->body, "still here");
}

TEST_F(HttpTest, OutOfFileDescriptors) {
  set_log_level(LogLevel::off);
  HttpOptions options;
  options.host = "127.0.0.1";
  options.port = 0;
  server = std::make_unique<HttpServer>(options, handler);
  std::deque<RawClient> clients;  // in the listen queue: nobody accepts yet
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back(port());
    ASSERT_TRUE(clients.back().send(get_text("/a")));
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = dup(0);
  ASSERT_GE(lowest_free, 0);
  close(lowest_free);
  const rlimit low{static_cast<rlim_t>(lowest_free) + 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  server->start();
  EXPECT_TRUE(eventually([&] { return server->connections() == 20; }));
  const double begin = cpu_seconds();
  std::this_thread::sleep_for(Ms(500));
  EXPECT_LT(cpu_seconds() - begin, 0.1) << "it waits, it does not spin";
  EXPECT_EQ(server->connections(), 20U);
  int answered = 0;
  while (!clients.empty()) {  // each one that leaves lets another in
    answered += clients.front().read().has_value() ? 1 : 0;
    clients.pop_front();
  }
  EXPECT_EQ(answered, 60);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(fetch(port(), get_text("/a")).status, 200);
}

}  // namespace
}  // namespace glint
