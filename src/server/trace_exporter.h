// Sends spans to an OpenTelemetry collector (OTLP over HTTP), from a thread of its own. Whoever ends a
// request only puts its span into a bounded queue: a slow or absent collector costs spans, which are counted,
// and never time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/otlp_client.h"
#include "server/otlp_span.h"

namespace glint {

enum class OtlpProtocol { protobuf, json };

struct TraceOptions {
  std::string endpoint;  // empty: no traces
  OtlpProtocol protocol = OtlpProtocol::protobuf;
  std::string service_name = "glint";
  OtlpClient::Headers headers;
  size_t queue_max = 2048;                    // spans that wait
  size_t batch_max = 512;                     // spans of one POST
  std::chrono::milliseconds delay{5000};      // until a batch that is not full goes
  std::chrono::milliseconds timeout{10'000};  // of one POST
  std::chrono::milliseconds retry_delay{1000};
  int attempts = 3;  // at a batch that the collector could not take now
};

/// OpenTelemetry's own variables: OTEL_SERVICE_NAME, OTEL_EXPORTER_OTLP_[TRACES_]PROTOCOL, _HEADERS,
/// _TIMEOUT, OTEL_BSP_SCHEDULE_DELAY, OTEL_BSP_MAX_QUEUE_SIZE, OTEL_BSP_MAX_EXPORT_BATCH_SIZE. Throws
/// bad_input naming the variable.
TraceOptions trace_options(const std::string& endpoint);

struct TraceCounts {
  uint64_t exported = 0, dropped_queue_full = 0, dropped_failed = 0;
};

class TraceExporter {
 public:
  /// Throws bad_input for an endpoint that cannot be one; it need not be there yet.
  explicit TraceExporter(TraceOptions options);
  /// Sends what waits, for at most two seconds.
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  /// Any thread; never waits for the collector.
  void submit(Span span);
  [[nodiscard]] TraceCounts counts() const;

 private:
  void run();
  std::vector<Span> next_batch();
  void send(const std::vector<Span>& batch);
  int post(const std::string& body, std::string& reason);
  bool pause_for_retry();

  const TraceOptions options_;
  OtlpClient client_;
  SpanSource source_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Span> queue_;
  bool stopping_ = false;
  bool ended_ = false;
  std::atomic<uint64_t> exported_{0}, dropped_queue_full_{0}, dropped_failed_{0};
  std::chrono::steady_clock::time_point warned_;
  std::thread thread_;
};

}  // namespace glint
