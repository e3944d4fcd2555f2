// Server-sent events out of the pieces of a stream (WHATWG HTML, 9.2.6), for clients.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace glint {

class SseReader {
 public:
  /// The `data` of every event that `bytes` completes, in order; lines of one event are joined by '\n'.
  /// Comments, other fields and events without data are passed over. Lines end with LF or CR LF. Throws io
  /// once an event has grown beyond 64 MiB.
  std::vector<std::string> push(std::string_view bytes);

 private:
  void take_line(std::string_view line, std::vector<std::string>& events);

  std::string line_;  // the unfinished one
  std::string data_;
  bool has_data_ = false;
};

}  // namespace glint
