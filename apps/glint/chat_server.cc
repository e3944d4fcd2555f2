#include "chat_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "chat_text.h"
#include "server/answer_format.h"

namespace glint {

namespace {

constexpr size_t kLinesKept = 20;
constexpr std::string_view kReady = "running on ";  // "Uvicorn running on http://127.0.0.1:8000 (...)"
constexpr std::chrono::seconds kEndWait{3};

/// Between fork and exec: only what is allowed there.
[[noreturn]] void become_server(int log, pid_t parent, char* const* arguments, char* const* environment) {
  ::setpgid(0, 0);  // Ctrl-C at the terminal is for the chat alone
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) _exit(1);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  ::execve("/proc/self/exe", arguments, environment);
  _exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

/// "INFO 12-01 12:00:00 no such file" without the first three words; other lines as they are.
std::string without_time(const std::string& line) {
  constexpr std::array<std::string_view, 4> kLevels{"INFO ", "WARNING ", "ERROR ", "CRITICAL "};
  for (const std::string_view level : kLevels) {
    if (line.compare(0, level.size(), level) != 0) continue;
    size_t at = level.size();
    for (int word = 0; word < 2 && at < line.size(); ++word)
      at = std::min(line.find(' ', at), line.size() - 1) + 1;
    return line.substr(at);
  }
  return line;
}

}  // namespace

ChatServer::ChatServer(const std::vector<std::string>& arguments) : key_(random_id() + random_id()) {
  std::vector<std::string> words{"glint", "serve"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (const char* word : {"--host", "127.0.0.1", "--port", "0", "--disable-access-log"})
    words.emplace_back(word);
  // The key goes by the environment, which other users cannot read, unlike a command line.
  std::vector<std::string> variables{cat("VLLM_API_KEY=", key_)};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "VLLM_API_KEY=", 13) != 0) variables.emplace_back(*entry);
  }
  const std::vector<char*> argument_list = pointers(words);
  const std::vector<char*> variable_list = pointers(variables);
  std::array<int, 2> pipe_ends{};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0)
    fail(ErrorKind::io, "cannot make a pipe: ", std::strerror(errno));
  log_ = pipe_ends[0];
  const pid_t self = ::getpid();
  child_ = ::fork();
  if (child_ == 0) become_server(pipe_ends[1], self, argument_list.data(), variable_list.data());
  ::close(pipe_ends[1]);
  if (child_ < 0) fail(ErrorKind::io, "cannot start the server: ", std::strerror(errno));
}

ChatServer::~ChatServer() {
  if (child_ > 0) {
    ::kill(child_, SIGTERM);
    const auto end = std::chrono::steady_clock::now() + kEndWait;
    while (::waitpid(child_, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) ::kill(child_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  if (reader_.joinable()) reader_.join();
  if (log_ >= 0) ::close(log_);
}

void ChatServer::keep(const std::string& line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(line);
  if (lines_.size() > kLinesKept) lines_.pop_front();
}

std::string ChatServer::last_lines() {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::string& line : lines_) text += harmless_line(line) + "\n";
  return text;
}

std::string ChatServer::wait_ready(int interrupt_fd, const std::function<void(const std::string&)>& on_line) {
  for (;;) {
    std::array<pollfd, 2> set{{{log_, POLLIN, 0}, {interrupt_fd, POLLIN, 0}}};
    if (::poll(set.data(), set.size(), -1) < 0 && errno != EINTR) fail(ErrorKind::io, std::strerror(errno));
    if (set[1].revents != 0) fail(ErrorKind::io, "interrupted while the model loads");
    if (set[0].revents == 0) continue;
    std::array<char, 4096> bytes;
    const ssize_t got = ::read(log_, bytes.data(), bytes.size());
    if (got <= 0) {
      const std::string last =
          lines_.empty() ? "no reason given" : harmless_line(without_time(lines_.back()));
      fail(ErrorKind::bad_input, "the model's server has ended: ", last);
    }
    partial_.append(bytes.data(), static_cast<size_t>(got));
    for (size_t end = 0; (end = partial_.find('\n')) != std::string::npos; partial_.erase(0, end + 1)) {
      const std::string line = partial_.substr(0, end);
      keep(line);
      const size_t ready = line.find(kReady);
      if (ready != std::string::npos) {
        const std::string url = line.substr(ready + kReady.size());
        reader_ = std::thread([this] { read_rest(); });
        return url.substr(0, url.find(' '));
      }
      on_line(without_time(line));
    }
  }
}

/// So that the server never waits for somebody to read its log.
void ChatServer::read_rest() {
  std::array<char, 4096> bytes;
  for (ssize_t got = 0; (got = ::read(log_, bytes.data(), bytes.size())) != 0;) {
    if (got < 0 && errno != EINTR) return;
    if (got < 0) continue;
    partial_.append(bytes.data(), static_cast<size_t>(got));
    for (size_t end = 0; (end = partial_.find('\n')) != std::string::npos; partial_.erase(0, end + 1)) {
      keep(partial_.substr(0, end));
    }
  }
}

}  // namespace glint
