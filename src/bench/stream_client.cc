#include "bench/stream_client.h"

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <vector>

#include "base/error.h"

namespace glint::bench {

namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int connect_to(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const void* generic = &address;
  const int handle = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(handle, static_cast<const sockaddr*>(generic), sizeof address) == 0) return handle;
  close(handle);
  return -1;
}

bool send_all(int handle, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(handle, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

struct Client {
  int handle = -1;
  std::string tail;
};

/// What the streams' clients do with bytes as they come.
class Reader {
 public:
  bool open(int port, int streams, const std::string& request) {
    poll_ = epoll_create1(0);
    clients_.resize(static_cast<size_t>(streams));
    for (size_t i = 0; i < clients_.size(); ++i) {
      clients_[i].handle = connect_to(port);
      if (clients_[i].handle < 0 || !send_all(clients_[i].handle, request)) return false;
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = i;
      epoll_ctl(poll_, EPOLL_CTL_ADD, clients_[i].handle, &event);
    }
    return true;
  }

  StreamTotals read() {
    std::array<epoll_event, 256> events;
    size_t open = clients_.size();
    while (open > 0) {
      const int ready = epoll_wait(poll_, events.data(), static_cast<int>(events.size()), 60'000);
      if (ready <= 0) return totals_;
      for (int i = 0; i < ready; ++i) {
        if (!take(clients_[events[static_cast<size_t>(i)].data.u64])) --open;
      }
    }
    return totals_;
  }

 private:
  /// False at the end of the stream.
  bool take(Client& client) {
    std::array<char, 16384> bytes;
    const ssize_t got = recv(client.handle, bytes.data(), bytes.size(), 0);
    if (got <= 0) {
      if (client.tail.find("data: [DONE]\n\n") != std::string::npos) ++totals_.done;
      close(client.handle);
      return false;
    }
    const std::string_view text(bytes.data(), static_cast<size_t>(got));
    for (size_t at = text.find("data: "); at != std::string_view::npos; at = text.find("data: ", at + 6)) {
      totals_.last_s = now_s();
      if (totals_.events++ == 0) totals_.first_s = totals_.last_s;
    }
    client.tail.append(text.substr(text.size() - std::min<size_t>(text.size(), 64)));
    if (client.tail.size() > 64) client.tail.erase(0, client.tail.size() - 64);
    return true;
  }

  int poll_ = -1;
  std::vector<Client> clients_;
  StreamTotals totals_;
};

void raise_file_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

[[noreturn]] void child(int from_parent, int to_parent, int streams, const std::string& request) {
  raise_file_limit();
  int port = 0;
  if (read(from_parent, &port, sizeof port) != sizeof port) _exit(1);
  Reader reader;
  StreamTotals totals;
  if (reader.open(port, streams, request)) totals = reader.read();
  if (write(to_parent, &totals, sizeof totals) != sizeof totals) _exit(2);
  _exit(0);
}

}  // namespace

StreamClients::StreamClients(int streams, std::string request) {
  raise_file_limit();
  if (pipe(to_child_) != 0 || pipe(from_child_) != 0) fail(ErrorKind::io, "cannot make a pipe");
  child_ = fork();
  if (child_ < 0) fail(ErrorKind::io, "cannot fork the bench's clients");
  if (child_ == 0) child(to_child_[0], from_child_[1], streams, request);
}

StreamClients::~StreamClients() {
  for (const int handle : {to_child_[0], to_child_[1], from_child_[0], from_child_[1]}) close(handle);
  waitpid(child_, nullptr, 0);
}

void StreamClients::start(int port) const {
  if (write(to_child_[1], &port, sizeof port) != sizeof port)
    fail(ErrorKind::io, "the bench's clients have gone");
}

StreamTotals StreamClients::wait() const {
  StreamTotals totals;
  if (read(from_child_[0], &totals, sizeof totals) != sizeof totals) {
    fail(ErrorKind::io, "the bench's clients failed");
  }
  return totals;
}

double time_to_first_byte(int port, const std::string& request) {
  const int handle = connect_to(port);
  if (handle < 0) fail(ErrorKind::io, "cannot connect to the bench's server");
  const double begin = now_s();
  double first = 0;
  std::string text;
  std::array<char, 16384> bytes;
  if (!send_all(handle, request)) fail(ErrorKind::io, "the bench's server does not take the request");
  for (ssize_t got = 0; (got = recv(handle, bytes.data(), bytes.size(), 0)) > 0;) {
    text.append(bytes.data(), static_cast<size_t>(got));
    if (first == 0 && text.find("data: ") != std::string::npos) first = now_s() - begin;
  }
  close(handle);
  if (text.find("data: [DONE]") == std::string::npos)
    fail(ErrorKind::io, "the bench's server said ", text.substr(0, 400));
  return first;
}

std::string completion_request(const std::string& body) {
  return cat(
      "POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nConnection: "
      "close\r\n"
      "Content-Length: ",
      body.size(), "\r\n\r\n", body);
}

}  // namespace glint::bench
