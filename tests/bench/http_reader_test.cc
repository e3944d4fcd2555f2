#include "bench/client/http_reader.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "bench/client/fetch.h"
#include "bench/client/url.h"

namespace glint::bench {
namespace {

struct Answer {
  HttpReader reader;
  std::string body;
  bool good = true;
};

/// In pieces of `size` bytes.
Answer read_in_pieces(std::string_view text, size_t size, bool head_only = false) {
  Answer answer{HttpReader(head_only), {}, true};
  for (size_t at = 0; at < text.size() && answer.good; at += size) {
    answer.good =
        answer.reader.feed(text.substr(at, size), [&](std::string_view piece) { answer.body += piece; });
  }
  return answer;
}

TEST(HttpReader, AnyCutGivesTheSameAnswer) {
  const std::string chunked =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTRANSFER-ENCODING: chunked\r\n\r\n"
      "5\r\nhello\r\n10;x=y\r\n, wide\r\nworld 12\r\n0\r\nTrailer: 1\r\n\r\n";
  const std::string sized = "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc";
  const std::string continued = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  for (size_t size = 1; size < chunked.size(); ++size) {
    const Answer answer = read_in_pieces(chunked, size);
    ASSERT_TRUE(answer.good) << answer.reader.error();
    EXPECT_TRUE(answer.reader.done());
    EXPECT_EQ(answer.body, "hello, wide\r\nworld 12");
    EXPECT_EQ(answer.reader.header("content-type"), "text/event-stream");
    EXPECT_TRUE(answer.reader.keep_alive());
    const Answer other = read_in_pieces(sized, size);
    EXPECT_TRUE(other.reader.done());
    EXPECT_EQ(other.reader.status(), 404);
    EXPECT_EQ(other.reader.reason(), "Not Found");
    EXPECT_EQ(other.body, "abc");
    EXPECT_EQ(read_in_pieces(continued, size).body, "ok");
  }
}

TEST(HttpReader, WhatEndsAnAnswer) {
  Answer open = read_in_pieces("HTTP/1.0 200 OK\r\n\r\nuntil the end", 7);
  EXPECT_FALSE(open.reader.done());
  EXPECT_TRUE(open.reader.end_of_connection());
  EXPECT_FALSE(open.reader.keep_alive());
  EXPECT_EQ(open.body, "until the end");
  Answer cut = read_in_pieces("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", 50);
  EXPECT_FALSE(cut.reader.end_of_connection());
  Answer cut_chunk =
      read_in_pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 50);
  EXPECT_FALSE(cut_chunk.reader.end_of_connection());
  EXPECT_TRUE(read_in_pieces("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", 9, true).reader.done());
  EXPECT_TRUE(read_in_pieces("HTTP/1.1 204 No Content\r\n\r\n", 9).reader.done());
  EXPECT_FALSE(read_in_pieces("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 99)
                   .reader.keep_alive());
}

TEST(HttpReader, RefusesWhatIsNoHttp) {
  EXPECT_FALSE(read_in_pieces("SSH-2.0-OpenSSH_9.2\r\n", 100).good);
  EXPECT_FALSE(read_in_pieces("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", 100).good);
  EXPECT_FALSE(read_in_pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 100).good);
  EXPECT_FALSE(read_in_pieces("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", 100).good);
}

TEST(SseReader, DataOfEvents) {
  const std::string text =
      ": ping\n\ndata: one\n\nevent: x\r\ndata:two\r\n\r\ndata: a\ndata: b\n\nid: 5\n\ndata: [DONE]\n\ndata: "
      "unended\n";
  for (size_t size = 1; size < text.size(); ++size) {
    SseReader reader;
    std::vector<std::string> events;
    for (size_t at = 0; at < text.size(); at += size) {
      reader.feed(std::string_view(text).substr(at, size),
                  [&](std::string_view data) { events.emplace_back(data); });
    }
    EXPECT_EQ(events, (std::vector<std::string>{"one", "two", "a\nb", "[DONE]"}));
  }
}

TEST(Url, Parts) {
  const Url plain = Url::parse("http://[::1]:8000/api/");
  EXPECT_EQ(plain.host, "::1");
  EXPECT_EQ(plain.port, 8000);
  EXPECT_EQ(plain.prefix, "/api");
  EXPECT_EQ(plain.text(), "http://[::1]:8000/api");
  EXPECT_EQ(Url::parse("https://example.org").port, 443);
  EXPECT_EQ(Url::parse("https://example.org").authority(), "example.org");
  EXPECT_EQ(Url::parse("localhost:30000").text(), "http://localhost:30000");
  for (const char* bad :
       {"", "ftp://x", "http://", "http://x:0", "http://x:99999", "http://x:y", "http://a b"}) {
    EXPECT_THROW(static_cast<void>(Url::parse(bad)), Error) << bad;
  }
}

TEST(Fetch, RequestText) {
  HttpAsk ask;
  ask.method = "POST";
  ask.path = "/v1/x";
  ask.headers = {{"content-type", "text/plain"}, {"X-A", "1"}};
  ask.body = "body";
  EXPECT_EQ(
      request_text(Url::parse("http://h:8000/p"), ask),
      "POST /p/v1/x HTTP/1.1\r\nHost: h:8000\r\nUser-Agent: glint\r\nAccept: */*\r\nContent-Length: 4\r\n"
      "content-type: text/plain\r\nX-A: 1\r\n\r\nbody");
  ask.headers = {{"X-A", "1\r\nX-B: 2"}};
  EXPECT_THROW(static_cast<void>(request_text(Url::parse("h"), ask)), Error);
}

TEST(Fetch, WhatAnErrorSays) {
  EXPECT_EQ(error_message(R"({"error": {"message": "no such model", "code": 404}})"), "no such model");
  EXPECT_EQ(error_message(R"({"error": "Unauthorized"})"), "Unauthorized");
  EXPECT_EQ(error_message(R"({"detail": "Not Found"})"), "Not Found");
  EXPECT_EQ(error_message("<html>\nbad gateway"), "<html> bad gateway");
}

}  // namespace
}  // namespace glint::bench
