// The HTTP server alone, with a handler that echoes: framing, limits, timeouts, hostile clients.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "echo_fixture.h"

namespace glint {
namespace {

TEST_F(HttpTest, KeepAliveAndPipelining) {
  start();
  RawClient client(port());
  ASSERT_TRUE(client.send(get_text("/a") + post_text("/b", "hello") + get_text("/c?x=1")));
  EXPECT_EQ(client.read()->body, "GET /a ");
  EXPECT_EQ(client.read()->body, "POST /b hello");
  EXPECT_EQ(client.read()->body, "GET /c ");
  ASSERT_TRUE(client.send(get_text("/d", "Connection: close\r\n")));
  const auto last = client.read();
  EXPECT_EQ(last->headers.at("connection"), "close");
  EXPECT_TRUE(client.closed_within(2000));
}

TEST_F(HttpTest, AThousandPipelinedRequestsKeepTheirOrder) {
  start();
  RawClient client(port());
  std::string all;
  for (int i = 0; i < 1000; ++i) all += post_text("/p", std::to_string(i));
  std::thread writer([&] { EXPECT_TRUE(client.send(all)); });
  for (int i = 0; i < 1000; ++i) {
    const auto answer = client.read();
    ASSERT_TRUE(answer) << i;
    EXPECT_EQ(answer->body, "POST /p " + std::to_string(i));
  }
  writer.join();
}

TEST_F(HttpTest, PipelinedBehindAHeldRequest) {
  start();
  RawClient client(port());
  ASSERT_TRUE(client.send(get_text("/hold")));
  ASSERT_TRUE(eventually([&] { return handler.first_held() != nullptr; }));
  ASSERT_TRUE(client.send(get_text("/next") + get_text("/after")));
  std::this_thread::sleep_for(Ms(30));
  const auto exchange = handler.first_held();
  exchange->post([exchange] { exchange->respond({200, "text/plain", "held", {}, false}); });
  EXPECT_EQ(client.read()->body, "held");
  EXPECT_EQ(client.read()->body, "GET /next ");
  EXPECT_EQ(client.read()->body, "GET /after ");
}

TEST_F(HttpTest, OneByteAtATime) {
  start();
  RawClient client(port());
  for (const char c : post_text("/slow", "body")) ASSERT_TRUE(client.send(std::string_view(&c, 1)));
  EXPECT_EQ(client.read()->body, "POST /slow body");
}

TEST_F(HttpTest, ChunkedBody) {
  start();
  RawClient client(port());
  ASSERT_TRUE(
      client.send("POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "5;name=\"v\"\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nTrailer: t\r\n\r\n"));
  EXPECT_EQ(client.read()->body, "POST /c hello world");
  ASSERT_TRUE(client.send("POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"));
  EXPECT_EQ(client.read()->status, 400);
}

TEST_F(HttpTest, LengthAndChunkedTogetherAreRefused) {
  start();
  const RawResponse answer = fetch(
      port(),
      "POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(fetch(port(), "POST /c HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde").status,
            400);
  EXPECT_EQ(fetch(port(), "POST /c HTTP/1.1\r\nContent-Length: -4\r\n\r\nabcde").status, 400);
}

TEST_F(HttpTest, HeadHasNoBody) {
  start();
  RawClient client(port());
  ASSERT_TRUE(client.send("HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n" + get_text("/g")));
  EXPECT_EQ(client.read(true)->headers.at("content-length"), "8");
  EXPECT_EQ(client.read()->body, "GET /g ");
}

TEST_F(HttpTest, Http10ClosesUnlessAsked) {
  start();
  RawClient client(port());
  ASSERT_TRUE(client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  EXPECT_EQ(client.read()->headers.at("connection"), "keep-alive");
  ASSERT_TRUE(client.send("GET /a HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(client.read()->headers.at("connection"), "close");
  EXPECT_TRUE(client.closed_within(2000));
}

TEST_F(HttpTest, Expect100) {
  start();
  RawClient client(port());
  ASSERT_TRUE(
      client.send("POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.read()->status, 100);
  ASSERT_TRUE(client.send("abc"));
  EXPECT_EQ(client.read()->body, "POST /e abc");
  EXPECT_EQ(fetch(port(), "POST /e HTTP/1.1\r\nContent-Length: 3\r\nExpect: tea\r\n\r\nabc").status, 417);
  // A refused request gets its answer instead of the 100.
  EXPECT_EQ(
      fetch(port(), "POST /refused HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n").status,
      401);
}

TEST_F(HttpTest, RefusedBeforeItsBody) {
  start();
  RawClient client(port());
  ASSERT_TRUE(client.send("POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"));
  const auto answer = client.read();
  EXPECT_EQ(answer->status, 401);
  EXPECT_EQ(answer->headers.at("connection"), "close");
  EXPECT_EQ(handler.handled, 0);
  // Without a body the connection stays usable.
  RawClient other(port());
  ASSERT_TRUE(other.send(get_text("/refused") + get_text("/a")));
  EXPECT_EQ(other.read()->status, 401);
  EXPECT_EQ(other.read()->status, 200);
}

TEST_F(HttpTest, BodyLimit) {
  HttpOptions options;
  options.body_bytes_max = size_t{1} << 20;
  start(options);
  EXPECT_EQ(fetch(port(), post_text("/b", std::string(size_t{1} << 20, 'x'))).status, 200);
  // The client sends everything before it reads: that must not fail, and the answer must survive it.
  for (const size_t bytes : {(size_t{1} << 20) + 1, size_t{32} << 20}) {
    RawClient client(port());
    EXPECT_TRUE(client.send(post_text("/b", std::string(bytes, 'x'))));
    const auto answer = client.read();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 413);
  }
  std::string chunked = "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 80; ++i) chunked += "8000\r\n" + std::string(0x8000, 'y') + "\r\n";
  EXPECT_EQ(fetch(port(), chunked + "0\r\n\r\n").status, 413);
}

TEST_F(HttpTest, AllBodiesTogetherAreLimited) {
  HttpOptions options;
  options.bodies_bytes_max = size_t{1} << 20;
  start(options);
  RawClient first(port());
  const std::string text = post_text("/b", std::string(700'000, 'x'));
  ASSERT_TRUE(first.send(std::string_view(text).substr(0, text.size() - 1)));
  std::this_thread::sleep_for(Ms(50));
  EXPECT_EQ(fetch(port(), post_text("/b", std::string(700'000, 'y'))).status, 503);
  ASSERT_TRUE(first.send("x"));
  EXPECT_EQ(first.read()->status, 200);
  EXPECT_TRUE(
      eventually([&] { return fetch(port(), post_text("/b", std::string(700'000, 'y'))).status == 200; }));
}

TEST_F(HttpTest, HeaderLimits) {
  start();
  EXPECT_EQ(fetch(port(), get_text("/a", "X: " + std::string(60'000, 'h') + "\r\n")).status, 200);
  EXPECT_EQ(fetch(port(), get_text("/a", "X: " + std::string(70'000, 'h') + "\r\n")).status, 431);
  EXPECT_EQ(fetch(port(), get_text("/" + std::string(100'000, 'p'))).status, 431);
  std::string many;
  for (int i = 0; i < 300; ++i) many += cat("X-", i, ": 1\r\n");
  EXPECT_EQ(fetch(port(), get_text("/a", many)).status, 431);
  // A header that never ends is cut off at the limit, however it comes.
  RawClient client(port());
  bool open = true;
  for (int i = 0; i < 100 && open; ++i) {
    open = client.send(i == 0 ? "GET / HTTP/1.1\r\n" : "A: " + std::string(1000, 'b') + "\r\n");
  }
  EXPECT_EQ(client.read()->status, 431);
}

TEST_F(HttpTest, GarbageGetsA400) {
  start();
  for (const std::string_view text :
       {"\x16\x03\x01\x02hello", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n",
        "POST nowhere HTTP/1.1\r\n\r\n", "\0\0\0\0\r\n\r\n"}) {
    RawClient client(port());
    ASSERT_TRUE(client.send(text));
    client.shutdown_write();
    const auto answer = client.read();
    if (answer) {
      EXPECT_EQ(answer->status, 400) << text;
    }
    EXPECT_TRUE(client.closed_within(2000));
  }
  EXPECT_EQ(fetch(port(), get_text("/alive")).status, 200);
}

TEST_F(HttpTest, SlowHeadersTimeOut) {
  HttpOptions options;
  options.header_timeout = Ms(150);
  options.idle_timeout = Ms(200);
  start(options);
  RawClient loris(port());
  ASSERT_TRUE(loris.send("GET / HTTP/1.1\r\nHost: x\r\n"));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100 && std::chrono::steady_clock::now() - begin < Ms(400); ++i) {
    loris.send("X: y\r\n");
    std::this_thread::sleep_for(Ms(20));
  }
  EXPECT_EQ(loris.read()->status, 408);
  RawClient silent(port());
  EXPECT_TRUE(silent.closed_within(2000));
  RawClient idle(port());
  ASSERT_TRUE(idle.send(get_text("/a")));
  EXPECT_EQ(idle.read()->status, 200);
  EXPECT_TRUE(idle.closed_within(2000));
}

TEST_F(HttpTest, SlowBodiesTimeOut) {
  HttpOptions options;
  options.body_stall_timeout = Ms(150);
  options.body_timeout = Ms(400);
  start(options);
  RawClient stalled(port());
  ASSERT_TRUE(stalled.send("POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc"));
  EXPECT_EQ(stalled.read()->status, 408);
  RawClient dripping(port());
  ASSERT_TRUE(dripping.send("POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n"));
  for (int i = 0; i < 30; ++i) {
    dripping.send("x");
    std::this_thread::sleep_for(Ms(20));
  }
  EXPECT_EQ(dripping.read()->status, 408);
}

TEST_F(HttpTest, AClientThatLeavesIsNoticed) {
  start();
  for (int how = 0; how < 3; ++how) {
    for (const char* path : {"/hold", "/stream"}) {
      const int before = handler.gone;
      const int handled = handler.handled;
      RawClient client(port());
      ASSERT_TRUE(client.send(get_text(path)));
      ASSERT_TRUE(eventually([&] { return handler.handled > handled; }));
      if (how == 0) client.close();
      if (how == 1) client.reset();
      if (how == 2) client.shutdown_write();
      EXPECT_TRUE(eventually([&] { return handler.gone == before + 1; })) << path << " " << how;
    }
  }
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
}

TEST_F(HttpTest, StreamFramesAndPings) {
  HttpOptions options;
  options.ping_interval = Ms(80);
  start(options);
  RawClient client(port());
  ASSERT_TRUE(client.send(get_text("/stream")));
  ASSERT_TRUE(eventually([&] { return handler.first_held() != nullptr; }));
  const auto exchange = handler.first_held();
  EXPECT_NE(client.read_until("\r\n\r\n").find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_EQ(client.read_until("\n\n\r\n"), "8\r\n: ping\n\n\r\n");
  exchange->post([exchange] {
    exchange->send("data: 1\n\n");
    exchange->finish();
    exchange->send("late");
    exchange->respond({});
  });
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "9\r\ndata: 1\n\n\r\n0\r\n\r\n");
  ASSERT_TRUE(client.send(get_text("/again")));
  EXPECT_EQ(client.read()->body, "GET /again ");
}

TEST_F(HttpTest, ASlowReaderIsDropped) {
  HttpOptions options;
  options.backlog_bytes_max = size_t{1} << 20;
  start(options);
  RawClient client(port());
  ASSERT_TRUE(client.send(get_text("/flood")));
  ASSERT_TRUE(eventually([&] { return handler.first_held() != nullptr; }));
  const auto exchange = handler.first_held();
  for (int i = 0; i < 4000 && handler.gone == 0; ++i) {
    exchange->post([exchange] { exchange->send(std::string(16'384, 'z')); });
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_TRUE(eventually([&] { return handler.gone == 1; }));
}

TEST_F(HttpTest, AReaderThatStopsIsDropped) {
  HttpOptions options;
  options.write_stall_timeout = Ms(200);
  options.backlog_bytes_max = size_t{64} << 20;
  start(options);
  RawClient client(port());
  ASSERT_TRUE(client.send(get_text("/flood")));
  ASSERT_TRUE(eventually([&] { return handler.first_held() != nullptr; }));
  const auto exchange = handler.first_held();
  exchange->post([exchange] { exchange->send(std::string(size_t{32} << 20, 'z')); });
  EXPECT_TRUE(eventually([&] { return handler.gone == 1; }));
}

TEST_F(HttpTest, AForgottenExchangeAnswers500) {
  start();
  EXPECT_EQ(fetch(port(), get_text("/drop")).status, 500);
}

TEST_F(HttpTest, StopEndsOpenRequests) {
  start();
  RawClient waiting(port());
  ASSERT_TRUE(waiting.send(get_text("/hold")));
  RawClient streaming(port());
  ASSERT_TRUE(streaming.send(get_text("/stream")));
  RawClient half(port());
  ASSERT_TRUE(half.send("GET / HT"));
  ASSERT_TRUE(eventually([&] { return handler.handled == 2; }));
  server->stop();
  EXPECT_EQ(handler.gone, 2);
  EXPECT_TRUE(half.closed_within(1000));
}

TEST_F(HttpTest, APortInUseIsOneLine) {
  start();
  HttpOptions options;
  options.host = "127.0.0.1";
  options.port = port();
  try {
    const HttpServer second(options, handler);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find("address already in use"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(std::to_string(port())), std::string::npos) << error.what();
  }
  options.host = "no.such.host.invalid";
  EXPECT_THROW(HttpServer(options, handler), Error);
}

TEST_F(HttpTest, ConnectionLimitQueuesTheRest) {
  HttpOptions options;
  options.connections_max = 4;
  start(options);
  std::vector<RawClient> open;
  for (int i = 0; i < 4; ++i) open.emplace_back(port());
  ASSERT_TRUE(eventually([&] { return server->connections() == 4; }));
  RawClient fifth(port());
  ASSERT_TRUE(fifth.send(get_text("/a")));
  std::this_thread::sleep_for(Ms(50));
  EXPECT_EQ(server->connections(), 4U);
  open.clear();
  EXPECT_EQ(fifth.read()->status, 200);
}

TEST_F(HttpTest, SeveralThreads) {
  HttpOptions options;
  options.threads = 2;
  start(options);
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    clients.emplace_back([&] {
      for (int i = 0; i < 100; ++i)
        good += fetch(port(), post_text("/x", "abc")).body == "POST /x abc" ? 1 : 0;
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(good, 400);
}

/// Random bytes, random cuts of good requests, random edits: the server answers the next good request.
TEST_F(HttpTest, RandomBytesHarmNobody) {
  start();
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const std::vector<std::string> seeds = {
      get_text("/a"), post_text("/b", "0123456789"),
      "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
      "POST /e HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc"};
  for (int round = 0; round < 3000; ++round) {
    std::string text = seeds[below(seeds.size())] + seeds[below(seeds.size())];
    for (size_t edit = below(6); edit > 0 && !text.empty(); --edit) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, below(8));
          break;
        case 2:
          text.insert(at, 1 + below(4), static_cast<char>(below(256)));
          break;
        default:
          text.resize(at + 1);
          break;
      }
    }
    RawClient client(port());
    client.send(text);
    if (below(2) == 0) client.shutdown_write();
    if (below(8) == 0) client.reset();
  }
  EXPECT_EQ(fetch(port(), post_text("/still", "here")).body, "POST /still here");
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
}

}  // namespace
}  // namespace glint
