// What stands between the socket and the routes: Unix sockets, CORS, a proxy's prefix, request ids, keys.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "../support/expect_error.h"
#include "../support/temp_folder.h"
#include "api_fixture.h"
#include "server/cors.h"
#include "server/otlp_client.h"
#include "server/trace_context.h"

namespace glint {
namespace {

class TransportTest : public ApiTest {
 protected:
  [[nodiscard]] std::string socket_path() const { return folder.path() / "glint.sock"; }
  TempFolder folder;
};

TEST_F(TransportTest, UnixSocket) {
  http.unix_path = socket_path();
  start();
  EXPECT_EQ(service->http().url(), "unix:" + socket_path());
  RawClient client(socket_path());
  ASSERT_TRUE(
      client.send(post_text("/v1/chat/completions", dump_json(user_request())) + get_text("/version")));
  EXPECT_EQ(client.read()->status, 200);
  EXPECT_EQ(client.read()->status, 200);
  OrderedJson body = user_request();
  body["stream"] = true;
  ASSERT_TRUE(client.send(post_text("/v1/chat/completions", dump_json(body))));
  EXPECT_TRUE(read_chat_stream(client.read()->body).done);
  service->stop();
  service.reset();
  struct stat info {};
  EXPECT_NE(lstat(socket_path().c_str(), &info), 0) << "the file goes with the server";
}

TEST_F(TransportTest, UnixSocketsInTheWay) {
  http.unix_path = socket_path();
  start();
  const auto refused = [&](const std::string& path, const std::vector<std::string>& parts) {
    HttpOptions other;
    other.unix_path = path;
    expect_error([&] { const HttpServer never(other, *service); }, parts);
  };
  refused(socket_path(), {"--uds", socket_path(), "already in use"});
  EXPECT_EQ(RawClient(socket_path()).send(get_text("/version")), true)
      << "the first one's socket is still there";
  std::ofstream(folder.path() / "file") << "precious";
  refused(folder.path() / "file", {"--uds", "not a socket"});
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "file"));
  refused(folder.path() / "no" / "folder", {"--uds", "no such file"});
  refused(std::string(200, 'x'), {"--uds", "107"});
  // Left behind by a process that was killed: taken over.
  const std::string stale = folder.path() / "stale";
  HttpOptions first;
  first.unix_path = stale;
  { const HttpServer gone(first, *service); }
  const int handle = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  stale.copy(address.sun_path, sizeof address.sun_path - 1);
  const void* generic = &address;
  ASSERT_EQ(::bind(handle, static_cast<const sockaddr*>(generic), sizeof address), 0);
  ::close(handle);
  const HttpServer second(first, *service);
  EXPECT_EQ(second.url(), "unix:" + stale);
}

HttpRequest request_of(std::string method, std::vector<HttpHeader> headers) {
  HttpRequest request;
  request.method = std::move(method);
  request.path = "/v1/models";
  request.headers = std::move(headers);
  return request;
}

std::string header_of(const std::vector<HttpHeader>& headers, std::string_view name) {
  for (const HttpHeader& header : headers) {
    if (header.name == name) return header.value;
  }
  return "-";
}

TEST(CorsTest, AllByDefault) {
  const Cors cors({});
  EXPECT_TRUE(cors.answer_headers(request_of("GET", {})).empty());
  const auto headers = cors.answer_headers(request_of("GET", {{"Origin", "https://a"}}));
  EXPECT_EQ(header_of(headers, "Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(headers.size(), 1U);
  const auto preflight =
      cors.preflight(request_of("OPTIONS", {{"Origin", "https://a"},
                                            {"Access-Control-Request-Method", "PUT"},
                                            {"Access-Control-Request-Headers", "x-a, x-b"}}));
  ASSERT_TRUE(preflight);
  EXPECT_EQ(preflight->status, 200);
  EXPECT_EQ(header_of(preflight->headers, "Access-Control-Allow-Headers"), "x-a, x-b");
  EXPECT_EQ(header_of(preflight->headers, "Access-Control-Allow-Methods"),
            "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
  EXPECT_FALSE(cors.preflight(request_of("OPTIONS", {{"Origin", "https://a"}})));
  EXPECT_FALSE(cors.preflight(request_of("GET", {{"Access-Control-Request-Method", "PUT"}})));
}

TEST(CorsTest, NamedOriginsMethodsAndHeaders) {
  const Cors cors({{"https://a", "https://b"}, {"GET", "POST"}, {"X-Key"}, true});
  auto headers = cors.answer_headers(request_of("GET", {{"Origin", "https://b"}}));
  EXPECT_EQ(header_of(headers, "Access-Control-Allow-Origin"), "https://b");
  EXPECT_EQ(header_of(headers, "Access-Control-Allow-Credentials"), "true");
  EXPECT_EQ(header_of(headers, "Vary"), "Origin");
  for (const char* origin : {"https://c", "https://a.evil", "https://", "null", "HTTPS://A"}) {
    headers = cors.answer_headers(request_of("GET", {{"Origin", origin}}));
    EXPECT_EQ(header_of(headers, "Access-Control-Allow-Origin"), "-") << origin;
    EXPECT_EQ(header_of(headers, "Access-Control-Allow-Credentials"), "-") << origin;
    EXPECT_EQ(header_of(headers, "Vary"), "Origin") << origin;
  }
  const auto ask = [&](const char* origin, const char* method, const char* names) {
    return *cors.preflight(request_of("OPTIONS", {{"Origin", origin},
                                                  {"Access-Control-Request-Method", method},
                                                  {"Access-Control-Request-Headers", names}}));
  };
  EXPECT_EQ(ask("https://a", "POST", "x-key, content-type").status, 200);
  EXPECT_EQ(header_of(ask("https://a", "POST", "").headers, "Access-Control-Allow-Headers"),
            "Accept, Accept-Language, Content-Language, Content-Type, X-Key");
  EXPECT_EQ(ask("https://c", "POST", "").body, "Disallowed CORS origin");
  EXPECT_EQ(ask("https://a", "PUT", "x-other,x-key").body, "Disallowed CORS method, headers");
  EXPECT_EQ(ask("https://a", "PUT", "x-other").status, 400);
}

TEST(CorsTest, CredentialsForEveryOrigin) {
  const Cors cors({{"*"}, {"*"}, {"*"}, true});
  const auto headers = cors.answer_headers(request_of("GET", {{"Origin", "https://a"}}));
  EXPECT_EQ(header_of(headers, "Access-Control-Allow-Origin"), "https://a");
  EXPECT_EQ(header_of(headers, "Vary"), "Origin");
}

TEST(CorsTest, Flags) {
  EXPECT_EQ(parse_json_strings(R"(["https://a", "*"])"), (std::vector<std::string>{"https://a", "*"}));
  for (const char* wrong : {"*", "{}", "[1]", "", "[\"a\\nb\"]"}) {
    expect_error([&] { parse_json_strings(wrong); }, {"JSON list"});
  }
}

TEST_F(TransportTest, EveryAnswerTellsItsOrigin) {
  start();
  const std::string origin = "Origin: https://a\r\n";
  OrderedJson body = user_request();
  const auto allowed = [&](const std::string& request) {
    const RawResponse answer = fetch(port(), request);
    return answer.headers.count("access-control-allow-origin") > 0
               ? cat(answer.status, answer.headers.at("access-control-allow-origin"))
               : cat(answer.status);
  };
  EXPECT_EQ(allowed(post_text("/v1/chat/completions", dump_json(body), origin)), "200*");
  EXPECT_EQ(allowed(post_text("/v1/chat/completions", dump_json(body))), "200");
  body["stream"] = true;
  EXPECT_EQ(allowed(post_text("/v1/chat/completions", dump_json(body), origin)), "200*");
  EXPECT_EQ(allowed(post_text("/v1/chat/completions", "{", origin)), "400*");
  EXPECT_EQ(allowed(get_text("/nowhere", origin)), "404*");
  EXPECT_EQ(allowed(get_text("/version", origin)), "200*");
  EXPECT_EQ(allowed("POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
                    "Content-Length: 99999999999\r\n" +
                    origin + "\r\n"),
            "413*");
}

TEST_F(TransportTest, RootPath) {
  settings.front.root_path = "/api/glm/";
  settings.api_keys = {"key"};
  start();
  EXPECT_EQ(fetch(port(), get_text("/api/glm/version")).status, 200);
  EXPECT_EQ(fetch(port(), get_text("/version")).status, 200);
  EXPECT_EQ(fetch(port(), get_text("/api/glmversion")).status, 404);
  EXPECT_EQ(fetch(port(), get_text("/api/glm")).status, 200) << "the page";
  EXPECT_EQ(fetch(port(), get_text("/api/glm/v1/models")).status, 401) << "the prefix is no way around keys";
  EXPECT_EQ(fetch(port(), get_text("/api/glm/v1/models", "x-api-key: key\r\n")).status, 200);
  expect_error([] { const HttpFront front({{}, "api", false}); }, {"api", "/"});
}

TEST_F(TransportTest, RequestIds) {
  settings.front.request_ids = true;
  start();
  const auto ask = [&](const std::string& extra) {
    return fetch(port(), post_text("/v1/chat/completions", dump_json(user_request()), extra));
  };
  RawResponse answer = ask("X-Request-Id: mine-1\r\n");
  EXPECT_EQ(answer.headers.at("x-request-id"), "mine-1");
  EXPECT_EQ(OrderedJson::parse(answer.body).at("id"), "chatcmpl-mine-1");
  answer = ask("");
  const std::string made = answer.headers.at("x-request-id");
  EXPECT_EQ(made.size(), 32U);
  EXPECT_EQ(OrderedJson::parse(answer.body).at("id"), "chatcmpl-" + made);
  EXPECT_NE(ask("").headers.at("x-request-id"), made);
  // The body's id is the client's own as well: a generated one does not take its place.
  OrderedJson body = user_request();
  for (const char* field : {"request_id", "rid"}) {
    OrderedJson named = body;
    named[field] = "mine-2";
    const std::string text = dump_json(named);
    answer = fetch(port(), post_text("/v1/chat/completions", text));
    EXPECT_EQ(OrderedJson::parse(answer.body).at("id"), "chatcmpl-mine-2") << field;
    EXPECT_EQ(answer.headers.at("x-request-id").size(), 32U);
    answer = fetch(port(), post_text("/v1/chat/completions", text, "X-Request-Id: a b\r\n"));
    EXPECT_EQ(OrderedJson::parse(answer.body).at("id"), "chatcmpl-mine-2") << "no usable header is none";
    answer = fetch(port(), post_text("/v1/chat/completions", text, "X-Request-Id: mine-1\r\n"));
    EXPECT_EQ(OrderedJson::parse(answer.body).at("id"), "chatcmpl-mine-1") << "the header wins";
  }
  // What would not do in a log line or a header is replaced.
  for (const std::string& bad : {std::string("a b"), std::string("\xC3\xA4"), std::string(300, 'x')}) {
    EXPECT_EQ(ask("X-Request-Id: " + bad + "\r\n").headers.at("x-request-id").size(), 32U) << bad;
  }
  EXPECT_EQ(fetch(port(), get_text("/nowhere", "X-Request-Id: lost\r\n")).headers.at("x-request-id"), "lost");
}

TEST_F(TransportTest, NoRequestIdsUnasked) {
  start();
  EXPECT_EQ(fetch(port(), get_text("/version", "X-Request-Id: a\r\n")).headers.count("x-request-id"), 0U);
}

TEST_F(TransportTest, OpenApiNamesTheRoutes) {
  start();
  const OrderedJson document = OrderedJson::parse(fetch(port(), get_text("/openapi.json")).body);
  EXPECT_EQ(document.at("paths").size(), ApiService::route_list().size());
  EXPECT_TRUE(document.at("paths").at("/v1/chat/completions").contains("post"));
  EXPECT_FALSE(document.at("paths").at("/v1/models").contains("post"));
}

TEST_F(TransportTest, NoOpenApiIfNotWanted) {
  settings.hide_openapi = true;
  start();
  EXPECT_EQ(fetch(port(), get_text("/openapi.json")).status, 404);
}

TEST(ApiKeysTest, UsersAndAdmins) {
  const auto allows = [](const ApiKeys& keys, const char* path, const char* key) {
    HttpRequest request = request_of("POST", {{"Authorization", cat("Bearer ", key)}});
    request.path = path;
    return keys.allow(request);
  };
  const ApiKeys open({}, {});
  EXPECT_TRUE(allows(open, "/v1/models", "") && allows(open, "/flush_cache", ""));
  const ApiKeys users({"u", "v"}, {});
  EXPECT_TRUE(allows(users, "/v1/models", "v") && allows(users, "/flush_cache", "u"));
  EXPECT_FALSE(allows(users, "/v1/models", "w") || allows(users, "/flush_cache", ""));
  EXPECT_TRUE(allows(users, "/health", ""));
  const ApiKeys both({"u"}, {"a"});
  EXPECT_TRUE(allows(both, "/v1/models", "u") && allows(both, "/v1/models", "a"));
  EXPECT_TRUE(allows(both, "/flush_cache", "a"));
  EXPECT_FALSE(allows(both, "/flush_cache", "u") || allows(both, "/v1/models", ""));
  const ApiKeys admin({}, {"a"});
  EXPECT_TRUE(allows(admin, "/v1/models", "") && allows(admin, "/flush_cache", "a"));
  EXPECT_FALSE(allows(admin, "/flush_cache", "") || allows(admin, "/reset_prefix_cache", "b"));
}

TEST(TraceContextTest, TheStandardsFormat) {
  const std::string trace = "0af7651916cd43dd8448eb211c80319c";
  const std::string span = "b7ad6b7169203331";
  const auto context = parse_trace_context("00-" + trace + "-" + span + "-01", "a=1");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id[0], 0x0a);
  EXPECT_EQ(context->trace_id[15], 0x9c);
  EXPECT_EQ(context->parent_span_id[7], 0x31);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->state, "a=1");
  EXPECT_FALSE(parse_trace_context("00-" + trace + "-" + span + "-02", "")->sampled);
  EXPECT_TRUE(parse_trace_context("cc-" + trace + "-" + span + "-01-more", "")) << "a version to come";
  EXPECT_EQ(parse_trace_context("00-" + trace + "-" + span + "-01", "a=\xC3\xA4")->state, "");
  for (const std::string& wrong :
       {std::string(), "00-" + trace + "-" + span, "00-" + trace + "-" + span + "-01-more",
        "00-" + trace + "-" + span + "-01 ", "ff-" + trace + "-" + span + "-01",
        "cc-" + trace + "-" + span + "-01x", "00-" + std::string(32, '0') + "-" + span + "-01",
        "00-" + trace + "-" + std::string(16, '0') + "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" + span + "-01", "0-" + trace + "-" + span + "-011",
        "00_" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-0g"}) {
    EXPECT_FALSE(parse_trace_context(wrong, "")) << wrong;
  }
}

TEST(OtlpEndpointTest, Urls) {
  OtlpEndpoint endpoint = parse_otlp_endpoint("http://collector:4318");
  EXPECT_EQ(endpoint.host + " " + std::to_string(endpoint.port) + " " + endpoint.path,
            "collector 4318 /v1/traces");
  endpoint = parse_otlp_endpoint("https://[::1]/x?y");
  EXPECT_EQ(endpoint.host + " " + std::to_string(endpoint.port) + " " + endpoint.path, "::1 443 /x?y");
  EXPECT_EQ(endpoint.authority, "[::1]");
  EXPECT_TRUE(endpoint.tls);
  for (const char* wrong :
       {"", "collector:4317", "grpc://collector:4317", "http://", "http://:4318", "http://a:0", "http://a:x",
        "http://a:70000", "http://a b", "http://user@a/", "http://a\r\n"}) {
    expect_error([&] { parse_otlp_endpoint(wrong); }, {"http://HOST:PORT"});
  }
}

}  // namespace
}  // namespace glint
