// One HTTP POST to a trace collector: blocking, with a time limit, on a thread that may block.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace glint {

struct OtlpEndpoint {
  bool tls = false;
  std::string host;  // name or address, without brackets
  int port = 80;
  std::string path;
  std::string authority;  // as in the URL, for the Host header
};

/// "http://collector:4318/v1/traces", or https. Without a path: /v1/traces. Throws bad_input.
OtlpEndpoint parse_otlp_endpoint(std::string_view url);

class OtlpClient {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;
  OtlpClient(OtlpEndpoint endpoint, Headers headers, std::chrono::milliseconds timeout)
      : endpoint_(std::move(endpoint)), headers_(std::move(headers)), timeout_(timeout) {}

  /// The status of the answer, or 0 with `reason` if there is none in time. A connection of its own.
  int post(std::string_view content_type, std::string_view body, std::string& reason);
  /// Any thread: ends a post() that runs, and those that follow.
  void cancel();

 private:
  int connect_in_time(std::string& reason);
  int exchange(int socket, const std::string& request, std::string& reason) const;

  OtlpEndpoint endpoint_;
  Headers headers_;
  std::chrono::milliseconds timeout_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace glint
