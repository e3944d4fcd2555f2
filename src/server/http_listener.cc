#include "server/http_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace glint {

namespace {

using Tcp = asio::ip::tcp;

constexpr int kListenBacklog = 4096;
constexpr int kAcceptsInARow = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::seconds kReportPause{30};

std::string reason_of(int error) {
  std::string reason = std::generic_category().message(error);
  reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));  // as users grep for it
  return reason;
}

Tcp::endpoint resolve(asio::io_context& context, const HttpOptions& options) {
  beast::error_code error;
  const auto port = static_cast<unsigned short>(options.port);
  const auto address = asio::ip::make_address(options.host, error);
  if (!error) return {address, port};
  Tcp::resolver resolver(context);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), error);
  if (error || found.empty()) {
    fail(ErrorKind::bad_input, "argument --host: ", options.host, ": no such address or name (",
         error.message(), ")");
  }
  return found.begin()->endpoint();
}

/// An address of any family that the system fills in or reads.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);
  sockaddr* get() {
    void* generic = &storage;
    return static_cast<sockaddr*>(generic);
  }
};

std::string describe(const Tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return cat(endpoint.address().is_v6() ? "[" + address + "]" : address, ":", endpoint.port());
}

std::string peer_of(SocketAddress& address) {
  Tcp::endpoint endpoint;
  if (address.storage.ss_family == AF_UNIX || address.bytes > endpoint.capacity()) return "unix";
  std::memcpy(endpoint.data(), &address.storage, address.bytes);
  endpoint.resize(address.bytes);
  return describe(endpoint);
}

/// Somebody answers on this Unix socket.
bool is_served(sockaddr_un& address) {
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return true;  // unknown: rather refuse than take somebody's socket away
  const void* generic = &address;
  const bool served = connect(probe, static_cast<const sockaddr*>(generic), sizeof address) == 0;
  ::close(probe);
  return served;
}

[[noreturn]] void fail_unix(const std::string& path, const std::string& reason,
                            ErrorKind kind = ErrorKind::io) {
  fail(kind, "argument --uds: ", path, ": ", reason);
}

/// What another address would change; everything else is the system's.
ErrorKind kind_of(int error) {
  const bool wrong =
      error == EADDRINUSE || error == EADDRNOTAVAIL || error == ENOENT || error == ENOTDIR || error == EACCES;
  return wrong ? ErrorKind::bad_input : ErrorKind::io;
}

}  // namespace

HttpListener::HttpListener(asio::io_context& context, const HttpOptions& options)
    : socket_(context), timer_(context) {
  if (options.unix_path.empty()) {
    bind_tcp(context, options);
  } else {
    bind_unix(options.unix_path);
  }
}

HttpListener::~HttpListener() {
  remove_file();
}

void HttpListener::remove_file() {
  if (!unix_path_.empty()) unlink(std::exchange(unix_path_, {}).c_str());
}

void HttpListener::bind_tcp(asio::io_context& context, const HttpOptions& options) {
  const Tcp::endpoint wanted = resolve(context, options);
  Tcp::acceptor acceptor(context);
  beast::error_code error;
  acceptor.open(wanted.protocol(), error);
  if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(wanted, error);
  if (!error) acceptor.listen(kListenBacklog, error);
  if (error) {
    fail(kind_of(error.value()), "[Errno ", error.value(), "] error while attempting to bind on address ('",
         wanted.address().to_string(), "', ", wanted.port(), "): ", reason_of(error.value()),
         error == asio::error::address_in_use ? "; choose another --port" : "",
         error.value() == EADDRNOTAVAIL ? "; --host must be an address of this machine" : "");
  }
  const Tcp::endpoint bound = acceptor.local_endpoint();
  port_ = bound.port();
  address_ = describe(bound);
  socket_.assign(acceptor.release());
}

/// A socket file that nobody serves any more is taken over; anything else in its place is left alone.
void HttpListener::bind_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    fail(ErrorKind::bad_input, "argument --uds: ", path, ": a socket's path may have ",
         sizeof address.sun_path - 1, " bytes, this one has ", path.size());
  }
  path.copy(address.sun_path, path.size());
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) fail_unix(path, "exists and is not a socket", ErrorKind::bad_input);
    if (is_served(address))
      fail_unix(path, "address already in use; choose another path", ErrorKind::bad_input);
    unlink(path.c_str());
  }
  const int handle = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0) fail_unix(path, reason_of(errno));
  socket_.assign(handle);
  const void* generic = &address;
  if (::bind(handle, static_cast<const sockaddr*>(generic), sizeof address) != 0) {
    const int error = errno;
    fail_unix(path, reason_of(error), kind_of(error));
  }
  unix_path_ = path;
  if (::listen(handle, kListenBacklog) != 0) fail_unix(path, reason_of(errno));
}

std::string HttpListener::url(bool secure) const {
  return unix_path_.empty() ? cat(secure ? "https" : "http", "://", address_) : "unix:" + unix_path_;
}

void HttpListener::start(Calls calls) {
  calls_ = std::move(calls);
  socket_.non_blocking(true);
  wait();
}

void HttpListener::close() {
  remove_file();  // first: behind the end of the socket the path may be somebody else's
  beast::error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
}

void HttpListener::wait() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](beast::error_code error) {
    if (!error) accept_some();
  });
}

void HttpListener::accept_some() {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    if (calls_.full()) return pause();
    SocketAddress address;
    const int handle = accept4(socket_.native_handle(), address.get(), &address.bytes, SOCK_CLOEXEC);
    if (handle >= 0) {
      calls_.adopt({handle, address.storage.ss_family, peer_of(address)});
      continue;
    }
    // What a client that has left already leaves behind is no trouble of ours.
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    report(errno);  // out of file descriptors, as a rule
    return pause();
  }
  wait();
}

/// Looks again a little later: the socket stays readable, and waiting for that would spin.
void HttpListener::pause() {
  calls_.make_room();
  timer_.expires_after(kAcceptPause);
  timer_.async_wait([this](beast::error_code error) {
    if (!error && socket_.is_open()) accept_some();
  });
}

void HttpListener::report(int error) {
  const auto now = Clock::now();
  if (now - reported_ < kReportPause) return;
  reported_ = now;
  log_warning("cannot accept connections: ", reason_of(error), "; they wait until some end");
}

}  // namespace glint
