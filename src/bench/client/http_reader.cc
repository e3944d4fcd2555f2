#include "bench/client/http_reader.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace glint::bench {

namespace {

constexpr size_t kLineMax = size_t{1} << 20U;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

bool HttpReader::broken(const std::string& why) {
  error_ = why;
  return false;
}

std::string_view HttpReader::header(std::string_view name) const {
  for (const auto& [key, value] : headers_) {
    if (key == name) return value;
  }
  return {};
}

/// True once `line` holds a whole line, its end left out.
bool HttpReader::take_line(std::string_view& bytes, std::string& line) {
  const size_t end = bytes.find('\n');
  line_.append(bytes.substr(0, end));
  if (end == std::string_view::npos) {
    bytes = {};
    return false;
  }
  bytes.remove_prefix(end + 1);
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  line.swap(line_);
  line_.clear();
  return true;
}

bool HttpReader::status_line(const std::string& line) {
  // HTTP/1.1 200 OK
  if (!line.starts_with("HTTP/1.") || line.size() < 12)
    return broken("the answer is no HTTP/1.x: " + line.substr(0, 80));
  keep_alive_ = line[7] != '0';
  const auto [end, error] = std::from_chars(line.data() + 9, line.data() + 12, status_);
  if (error != std::errc() || end != line.data() + 12) return broken("no status in " + line.substr(0, 80));
  reason_ = line.size() > 13 ? line.substr(13) : "";
  return true;
}

bool HttpReader::head_line(const std::string& line) {
  if (status_ == 0) return status_line(line);
  if (line.empty()) return end_of_head();
  const size_t colon = line.find(':');
  if (colon == std::string::npos) return broken("a header without colon: " + line.substr(0, 80));
  headers_.emplace_back(lower(std::string_view(line).substr(0, colon)),
                        trimmed(std::string_view(line).substr(colon + 1)));
  return true;
}

bool HttpReader::end_of_head() {
  if (status_ >= 100 && status_ < 200) {  // "100 Continue": the answer itself follows
    status_ = 0;
    headers_.clear();
    return true;
  }
  const std::string connection = lower(header("connection"));
  if (connection.find("close") != std::string::npos) keep_alive_ = false;
  if (head_only_ || status_ == 204 || status_ == 304) {
    state_ = State::done;
  } else if (lower(header("transfer-encoding")).find("chunked") != std::string::npos) {
    state_ = State::chunk_size;
  } else if (const std::string_view length = header("content-length"); !length.empty()) {
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), left_);
    if (error != std::errc() || end != length.data() + length.size())
      return broken("a Content-Length that is no number");
    state_ = left_ == 0 ? State::done : State::plain;
  } else {
    keep_alive_ = false;
    state_ = State::until_close;
  }
  return true;
}

bool HttpReader::size_line(const std::string& line) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), left_, 16);
  if (error != std::errc() || end == line.data())
    return broken("a chunk without size: " + line.substr(0, 80));
  state_ = left_ == 0 ? State::trailer : State::chunk;
  return true;
}

bool HttpReader::feed(std::string_view bytes, const std::function<void(std::string_view)>& body) {
  begun_ = begun_ || !bytes.empty();
  std::string line;
  while (!bytes.empty()) {
    switch (state_) {
      case State::head:
        if (take_line(bytes, line) && !head_line(line)) return false;
        break;
      case State::chunk_size:
        if (take_line(bytes, line) && !size_line(line)) return false;
        break;
      case State::chunk_end:
        if (take_line(bytes, line)) state_ = State::chunk_size;
        break;
      case State::trailer:
        if (take_line(bytes, line) && line.empty()) state_ = State::done;
        break;
      case State::plain:
      case State::chunk: {
        const std::string_view part = bytes.substr(0, std::min<uint64_t>(bytes.size(), left_));
        body(part);
        bytes.remove_prefix(part.size());
        left_ -= part.size();
        if (left_ == 0) state_ = state_ == State::plain ? State::done : State::chunk_end;
        break;
      }
      case State::until_close:
        body(bytes);
        bytes = {};
        break;
      case State::done:
        return broken("bytes behind the end of the answer");
    }
    if (line_.size() > kLineMax) return broken("a line of more than 1 MiB in the answer's head");
  }
  return true;
}

bool HttpReader::end_of_connection() {
  if (state_ == State::until_close) state_ = State::done;
  return state_ == State::done;
}

void SseReader::feed(std::string_view bytes, const std::function<void(std::string_view data)>& event) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_.append(bytes.substr(0, end));
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    if (line_.empty()) {
      if (has_data_) event(data_);
      data_.clear();
      has_data_ = false;
    } else if (line_.starts_with("data:")) {
      if (has_data_) data_ += '\n';
      data_.append(line_, line_.starts_with("data: ") ? 6 : 5, std::string::npos);
      has_data_ = true;
    }
    line_.clear();
  }
}

}  // namespace glint::bench
