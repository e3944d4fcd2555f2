// HTTP requests and answers, as the routes see them. The sockets are in http_server.h.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;  // "POST", as sent
  std::string path;    // up to the question mark, as sent; begins with '/' ("*" for OPTIONS *)
  std::string query;   // behind it
  int version = 11;    // 10 or 11
  std::vector<HttpHeader> headers;
  std::string body;
  std::string peer;                  // "127.0.0.1:51234", "unix"
  std::string generated_id;          // by HttpFront, for a request whose header brings no id; else empty
  std::shared_ptr<void> body_share;  // its part of the server's memory for bodies; goes with the request

  /// The first header of that name (any case), or an empty text.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type;  // empty: no such header
  std::string body;
  std::vector<HttpHeader> headers;
  bool close = false;  // end the connection behind this answer
};

/// "Not Found" for 404, and so on; "Unknown" for a code that is not used here.
std::string_view status_phrase(int status);

/// True if the two texts are equal but for the case of ASCII letters.
bool equal_ignoring_case(std::string_view a, std::string_view b);

/// The answer to one request. It belongs to one io thread: every method but gone() and post() is called there
/// only. An exchange that is dropped without an answer sends a 500.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  /// True once the client has left before its answer was complete. Any thread.
  [[nodiscard]] virtual bool gone() const = 0;
  /// Runs `task` on the exchange's io thread, in the order of the calls. Any thread.
  virtual void post(std::function<void()> task) = 0;
  /// The index of that io thread.
  [[nodiscard]] virtual int thread() const = 0;

  /// Called once, if the client leaves (or the server stops) before the answer is complete. Not called from
  /// within one of the methods below; forgotten when the answer is complete.
  virtual void on_gone(std::function<void()> callback) = 0;

  /// The whole answer. Without effect if the client has gone or an answer was given.
  virtual void respond(HttpResponse response) = 0;

  /// Status and headers of a streamed answer, sent at once. Its body follows by send() until finish().
  virtual void start_stream(HttpResponse head) = 0;
  /// Never waits: what the client does not take is kept up to HttpOptions::backlog_bytes_max, then the client
  /// is dropped as if it had left.
  virtual void send(std::string_view bytes) = 0;
  virtual void finish() = 0;
};

struct HttpAccess {
  std::string_view peer, method, target;
  int version = 11;
  int status = 0;
};

/// What the server calls; all calls come from io threads.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  /// The header has arrived: may change it. Returns header lines that every answer to this request carries,
  /// those that the server gives itself included.
  virtual std::vector<HttpHeader> prepare(HttpRequest& /*head*/) { return {}; }
  /// Then, still before the body. An answer here refuses the request, its body stays unread.
  virtual std::optional<HttpResponse> screen(const HttpRequest& head) = 0;
  /// The request is complete. Must not block; answers through `exchange`, now or later.
  virtual void handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) = 0;
  /// The body of an answer that the server gives itself (broken request, limits), with its content type set.
  virtual HttpResponse refusal(int status, const std::string& reason) = 0;
  /// An answer has begun.
  virtual void answered(const HttpAccess& access) = 0;
};

}  // namespace glint
