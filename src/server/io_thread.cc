#include "server/io_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace glint {

namespace {

void run_thread(IoThread& io) {
  for (;;) {
    try {
      io.context.run();
      return;
    } catch (const std::exception& error) {
      log_error("io thread ", io.index, ": ", error.what());
    }
  }
}

void arm(const IoThread& io, Ticker& ticker) {
  ticker.timer.expires_after(ticker.period);
  ticker.timer.async_wait([&io, &ticker](beast::error_code error) {
    if (error || io.stopping) return;
    ticker.task();
    arm(io, ticker);
  });
}

}  // namespace

Waker::Waker(asio::io_context& context, std::function<void()> task)
    : counter_(context), task_(std::move(task)) {
  const int handle = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (handle < 0) fail(ErrorKind::io, "eventfd: ", std::generic_category().message(errno));
  counter_.assign(handle);
}

void Waker::wake() {
  const uint64_t one = 1;
  // It fails only when the counter is full, and then the task is on its way.
  [[maybe_unused]] const auto written = write(counter_.native_handle(), &one, sizeof one);
}

void Waker::watch() {
  counter_.async_wait(asio::posix::stream_descriptor::wait_read, [this](beast::error_code error) {
    if (error) return;
    uint64_t count = 0;
    [[maybe_unused]] const auto taken = read(counter_.native_handle(), &count, sizeof count);
    watch();  // first: a task that throws must not end it
    task_();
  });
}

void Waker::close() {
  beast::error_code ignored;
  counter_.cancel(ignored);  // the handle stays open: someone may still call wake()
}

void IoThread::add_ticker(std::chrono::milliseconds period, std::function<void()> task) {
  tickers.push_back(std::make_unique<Ticker>(Ticker{asio::steady_timer(context), period, std::move(task)}));
}

void IoThread::start() {
  for (const auto& ticker : tickers) arm(*this, *ticker);
  for (const auto& waker : wakers) waker->watch();
  thread = std::thread([this] { run_thread(*this); });
}

void IoThread::end_tasks() {
  stopping = true;
  for (const auto& ticker : tickers) ticker->timer.cancel();
  for (const auto& waker : wakers) waker->close();
  work.reset();
}

}  // namespace glint
