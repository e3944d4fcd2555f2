#include "text/grammar/xgrammar_log.h"

#include <stdexcept>

namespace glint {

namespace {
thread_local XgrammarWarnings* listener = nullptr;
}

XgrammarWarnings::XgrammarWarnings() : outer_(listener) {
  listener = this;
}
XgrammarWarnings::~XgrammarWarnings() {
  listener = outer_;
}

static void hear(const std::string& message) {
  if (listener != nullptr) listener->add(message);
}

}  // namespace glint

// The library is built with XGRAMMAR_LOG_CUSTOMIZE: these two are what it calls.
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& file, int line, const std::string& message);
void LogMessageImpl(const std::string& file, int line, int level, const std::string& message);

void LogFatalImpl(const std::string& /*file*/, int /*line*/, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string& /*file*/, int /*line*/, int /*level*/, const std::string& message) {
  glint::hear(message);
}

}  // namespace xgrammar
