#include "bench/send_floor.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace glint::bench {

namespace {

/// Sockets that close with their owner.
struct Sockets {
  std::vector<int> handles;
  Sockets() = default;
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  ~Sockets() {
    for (const int handle : handles) close(handle);
  }
};

int listen_anywhere(int& port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  void* generic = &address;
  socklen_t length = sizeof address;
  const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0 || bind(handle, static_cast<sockaddr*>(generic), length) != 0 || listen(handle, 4096) != 0 ||
      getsockname(handle, static_cast<sockaddr*>(generic), &length) != 0) {
    fail(ErrorKind::io, "cannot listen on a loopback port");
  }
  port = ntohs(address.sin_port);
  return handle;
}

}  // namespace

double process_cpu_s() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

double send_floor_s(const StreamClients& clients, int streams, size_t bytes, int rounds, int64_t pause_ms) {
  int port = 0;
  Sockets sockets;
  sockets.handles.push_back(listen_anywhere(port));
  clients.start(port);
  for (int i = 0; i < streams; ++i) {
    sockets.handles.push_back(accept4(sockets.handles.front(), nullptr, nullptr, SOCK_CLOEXEC));
    if (sockets.handles.back() < 0) fail(ErrorKind::io, "cannot accept a loopback connection");
  }
  const std::string chunk(bytes, 'x');
  double used = 0;
  for (int round = 0; round < rounds; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    const double before = process_cpu_s();
    for (int i = 1; i <= streams; ++i) {
      if (send(sockets.handles[static_cast<size_t>(i)], chunk.data(), chunk.size(), MSG_NOSIGNAL) < 0) {
        fail(ErrorKind::io, "a loopback connection does not take its bytes");
      }
    }
    used += process_cpu_s() - before;
  }
  return used / (static_cast<double>(streams) * rounds);
}

}  // namespace glint::bench
