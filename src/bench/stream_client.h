// HTTP clients for the server bench, in a process of their own so that their cost does not count.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace glint::bench {

struct StreamTotals {
  int done = 0;                    // streams that ended with [DONE]
  double first_s = 0, last_s = 0;  // steady_clock, of the first and the last byte of any body
  uint64_t events = 0;             // "data: " lines
};

/// A forked process that waits for a port, opens `streams` connections, sends `request` on each and reads all
/// of them to their end.
class StreamClients {
 public:
  StreamClients(int streams, std::string request);
  ~StreamClients();
  StreamClients(const StreamClients&) = delete;
  StreamClients& operator=(const StreamClients&) = delete;
  void start(int port) const;
  /// Waits for the end. Throws io if the clients failed.
  [[nodiscard]] StreamTotals wait() const;

 private:
  int to_child_[2] = {-1, -1};
  int from_child_[2] = {-1, -1};
  pid_t child_ = -1;
};

/// Seconds from the first byte sent to the first byte of the answer's body; reads the answer to its end.
double time_to_first_byte(int port, const std::string& request);

/// "POST /v1/completions" with this body; the connection ends behind the answer.
std::string completion_request(const std::string& body);

}  // namespace glint::bench
