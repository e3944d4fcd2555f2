#include "server/trace_exporter.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace glint {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFlushTime{2};
constexpr std::chrono::seconds kWarningPause{60};

/// The first of these variables that is set and not empty.
std::pair<std::string, std::string> variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return {name, value};
  }
  return {};
}

int64_t number(std::initializer_list<const char*> names, int64_t otherwise) {
  const auto [name, text] = variable(names);
  if (text.empty()) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 1'000'000'000) {
    fail(ErrorKind::bad_input, name, "=", text, ": expected a whole number, 1 to 1000000000");
  }
  return value;
}

OtlpProtocol protocol_of_environment() {
  const auto [name, text] = variable({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"});
  if (text.empty() || text == "http/protobuf") return OtlpProtocol::protobuf;
  if (text == "http/json") return OtlpProtocol::json;
  fail(ErrorKind::bad_input, name, "=", text, ": expected http/protobuf or http/json (gRPC is not spoken)");
}

/// "a=1,b=2"
OtlpClient::Headers headers_of_environment() {
  const auto [name, text] = variable({"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"});
  OtlpClient::Headers headers;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const auto equals = pair.find('=');
    if (equals == 0 || equals == std::string_view::npos || pair.find_first_of(": \r\n") < equals ||
        pair.find_first_of("\r\n") != std::string_view::npos) {
      fail(ErrorKind::bad_input, name, ": expected NAME=VALUE,NAME=VALUE");
    }
    headers.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return headers;
}

/// As the OTLP specification has it; 0: there was no answer.
bool worth_another_try(int status) {
  return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

TraceOptions trace_options(const std::string& endpoint) {
  TraceOptions options;
  options.endpoint = endpoint;
  if (endpoint.empty()) return options;
  parse_otlp_endpoint(endpoint);
  options.protocol = protocol_of_environment();
  if (const auto [name, text] = variable({"OTEL_SERVICE_NAME"}); !text.empty()) options.service_name = text;
  options.headers = headers_of_environment();
  options.queue_max = static_cast<size_t>(number({"OTEL_BSP_MAX_QUEUE_SIZE"}, 2048));
  options.batch_max = static_cast<size_t>(number({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE"}, 512));
  options.delay = std::chrono::milliseconds(number({"OTEL_BSP_SCHEDULE_DELAY"}, 5000));
  options.timeout = std::chrono::milliseconds(
      number({"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"}, 10'000));
  return options;
}

TraceExporter::TraceExporter(TraceOptions options)
    : options_(std::move(options)),
      client_(parse_otlp_endpoint(options_.endpoint), options_.headers, options_.timeout),
      source_{options_.service_name, GLINT_VERSION},
      thread_([this] { run(); }) {}

TraceExporter::~TraceExporter() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    wake_.wait_for(lock, kFlushTime, [this] { return ended_; });
  }
  client_.cancel();
  thread_.join();
}

void TraceExporter::submit(Span span) {
  const std::lock_guard lock(mutex_);
  if (queue_.size() >= options_.queue_max) {
    ++dropped_queue_full_;
    return;
  }
  queue_.push_back(std::move(span));
  if (queue_.size() == 1 || queue_.size() == options_.batch_max) wake_.notify_all();
}

TraceCounts TraceExporter::counts() const {
  return {exported_, dropped_queue_full_, dropped_failed_};
}

/// Waits for a full batch, or for `delay` after the first span. Empty: stopping, and nothing is left.
std::vector<Span> TraceExporter::next_batch() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  wake_.wait_for(lock, options_.delay, [this] { return stopping_ || queue_.size() >= options_.batch_max; });
  std::vector<Span> batch;
  while (!queue_.empty() && batch.size() < options_.batch_max) {
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

void TraceExporter::run() {
  // A TLS connection that breaks would raise it.
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  for (;;) {
    const std::vector<Span> batch = next_batch();
    if (batch.empty()) break;
    try {
      send(batch);
    } catch (const std::exception& failure) {
      dropped_failed_ += batch.size();
      log_error("trace exporter: ", failure.what());
    }
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  wake_.notify_all();
}

int TraceExporter::post(const std::string& body, std::string& reason) {
  const bool json = options_.protocol == OtlpProtocol::json;
  return client_.post(json ? "application/json" : "application/x-protobuf", body, reason);
}

/// False: the server stops, there is no time for another try.
bool TraceExporter::pause_for_retry() {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, options_.retry_delay, [this] { return stopping_; });
}

void TraceExporter::send(const std::vector<Span>& batch) {
  const std::string body =
      options_.protocol == OtlpProtocol::json ? otlp_json(batch, source_) : otlp_protobuf(batch, source_);
  std::string reason;
  int status = 0;
  for (int attempt = 1;; ++attempt) {
    status = post(body, reason);
    if (status >= 200 && status < 300) {
      exported_ += batch.size();
      return;
    }
    if (!worth_another_try(status) || attempt >= options_.attempts || !pause_for_retry()) break;
  }
  dropped_failed_ += batch.size();
  if (Clock::now() - warned_ < kWarningPause) return;
  warned_ = Clock::now();
  log_warning("trace collector ", options_.endpoint, ": ", batch.size(),
              " spans dropped: ", status == 0 ? reason : cat("it answered ", status));
}

}  // namespace glint
