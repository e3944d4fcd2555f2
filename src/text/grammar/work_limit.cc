#include "text/grammar/work_limit.h"

#include <ctime>

namespace glint {

namespace {

thread_local WorkLimit* limit = nullptr;
thread_local int until_look = 0;
/// Looking at the clock costs as much as a few calls.
constexpr int kCallsBetweenLooks = 16;

std::chrono::nanoseconds thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

WorkLimit::WorkLimit(std::chrono::microseconds most)
    : begin_(thread_time()),
      end_(begin_ + most),
      look_(std::chrono::steady_clock::now() + most),
      outer_(limit) {
  limit = this;
  until_look = kCallsBetweenLooks;
}

WorkLimit::~WorkLimit() {
  limit = outer_;
}

std::chrono::microseconds WorkLimit::used() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(thread_time() - begin_);
}

void WorkLimit::check() {
  if (limit == nullptr || --until_look > 0) return;
  until_look = kCallsBetweenLooks;
  // A thread works no longer than time passes; that clock is the cheaper one.
  const auto now = std::chrono::steady_clock::now();
  if (now < limit->look_) return;
  const auto left = limit->end_ - thread_time();
  if (left.count() < 0) throw WorkLimitReached();
  limit->look_ = now + left;
}

}  // namespace glint

// bool xgrammar::EarleyParser::Advance(uint8_t byte, bool debug_print)
extern "C" bool __real__ZN8xgrammar12EarleyParser7AdvanceEhb(void* parser, unsigned char byte,
                                                             bool debug_print);
extern "C" bool __wrap__ZN8xgrammar12EarleyParser7AdvanceEhb(void* parser, unsigned char byte,
                                                             bool debug_print);

bool __wrap__ZN8xgrammar12EarleyParser7AdvanceEhb(void* parser, unsigned char byte, bool debug_print) {
  glint::WorkLimit::check();
  return __real__ZN8xgrammar12EarleyParser7AdvanceEhb(parser, byte, debug_print);
}
