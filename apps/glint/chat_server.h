// A server of one's own for `glint chat MODEL`: this program again, as a child, on a free port of 127.0.0.1
// with a key that nobody else knows.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace glint {

class ChatServer {
 public:
  /// Starts `glint serve` with `arguments` behind the ones that this class adds; returns at once. It ends
  /// with this process, however that ends.
  explicit ChatServer(const std::vector<std::string>& arguments);
  /// Asks the server to end, and ends it after three seconds.
  ~ChatServer();
  ChatServer(const ChatServer&) = delete;
  ChatServer& operator=(const ChatServer&) = delete;

  /// Waits until it serves and returns its URL. `on_line` gets the lines of its log meanwhile. Throws io with
  /// its last line if it ends before, or if `interrupt_fd` becomes readable.
  std::string wait_ready(int interrupt_fd, const std::function<void(const std::string&)>& on_line);

  [[nodiscard]] const std::string& key() const { return key_; }
  /// The end of its log, for an error's sake.
  [[nodiscard]] std::string last_lines();

 private:
  void keep(const std::string& line);
  void read_rest();

  std::string key_;
  pid_t child_ = -1;
  int log_ = -1;
  std::string partial_;
  std::mutex mutex_;
  std::deque<std::string> lines_;
  std::thread reader_;
};

}  // namespace glint
