// An HTTP/1.1 answer, read as its bytes come, and the events of an SSE body.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace glint::bench {

class HttpReader {
 public:
  /// `head_only`: the answer to HEAD, which has no body whatever its headers say.
  explicit HttpReader(bool head_only = false) : head_only_(head_only) {}

  /// Takes bytes from the connection and hands out the body's as they stand in them. False if they are no
  /// HTTP; error() says why. Bytes behind the end of the answer are an error too.
  bool feed(std::string_view bytes, const std::function<void(std::string_view)>& body);
  /// The connection has ended: true if that ends the answer, too.
  bool end_of_connection();

  [[nodiscard]] bool done() const { return state_ == State::done; }
  /// Anything at all has come.
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// The value of the first header of that name (lower case), "" if there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& headers() const { return headers_; }
  /// The connection may be used again behind the answer.
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  enum class State { head, plain, until_close, chunk_size, chunk, chunk_end, trailer, done };
  bool broken(const std::string& why);
  bool take_line(std::string_view& bytes, std::string& line);
  bool head_line(const std::string& line);
  bool status_line(const std::string& line);
  bool end_of_head();
  bool size_line(const std::string& line);

  bool head_only_;
  State state_ = State::head;
  bool begun_ = false;
  std::string line_;
  int status_ = 0;
  std::string reason_, error_;
  std::vector<std::pair<std::string, std::string>> headers_;
  bool keep_alive_ = true;
  uint64_t left_ = 0;
};

/// Cuts an event stream into the `data` of its events; comments and other fields are left out.
class SseReader {
 public:
  void feed(std::string_view bytes, const std::function<void(std::string_view data)>& event);

 private:
  std::string line_, data_;
  bool has_data_ = false;
};

}  // namespace glint::bench
