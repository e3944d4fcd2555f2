#include "server/sse_reader.h"

#include <algorithm>

#include "base/error.h"

namespace glint {

namespace {

constexpr size_t kEventBytesMax = size_t{64} << 20;

}  // namespace

std::vector<std::string> SseReader::push(std::string_view bytes) {
  std::vector<std::string> events;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    line_.append(bytes.substr(0, end));
    if (line_.size() + data_.size() > kEventBytesMax)
      fail(ErrorKind::io, "the server sends an event without an end");
    if (end == bytes.size()) break;
    bytes.remove_prefix(end + 1);
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    take_line(line_, events);
    line_.clear();
  }
  return events;
}

void SseReader::take_line(std::string_view line, std::vector<std::string>& events) {
  if (line.empty()) {
    if (has_data_) events.push_back(std::move(data_));
    data_.clear();
    has_data_ = false;
    return;
  }
  if (line.substr(0, 4) != "data" || (line.size() > 4 && line[4] != ':')) return;
  line.remove_prefix(std::min<size_t>(line.size(), 5));
  if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
}

}  // namespace glint
