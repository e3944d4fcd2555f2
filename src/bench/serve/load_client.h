// Sends many streamed requests, each at its time, over as many connections as are needed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/client/fetch.h"
#include "bench/serve/stream_outcome.h"

namespace glint::bench {

struct LoadRequest {
  std::string body;
  std::string request_id;  // sent as x-request-id if not empty
  int64_t prompt_tokens = 0;
  double due_s = 0;  // behind the start of the load
};

struct LoadPlan {
  std::string path;     // behind the target's prefix
  HttpHeaders headers;  // of every request
  StreamFormat format = StreamFormat::completions;
  ChunkClock clock = ChunkClock::native;
  /// At most so many requests are under way; the others wait in the order of their times. 0: no bound.
  int64_t max_concurrency = 0;
  double timeout_s = 6 * 3600.0;  // of one request
  std::vector<LoadRequest> requests;
  /// When request `index` is sent on its way; from the caller's thread.
  std::function<void(size_t index)> on_due;
  /// Now and then, and at the end, with how many requests are over; from the caller's thread.
  std::function<void(size_t done)> on_progress;
};

struct LoadResult {
  std::vector<RequestOutcome> outcomes;  // in the order of the requests
  double duration_s = 0;                 // until the last one was over
};

/// One thread of its own for every 256 requests that can be under way. Connections are kept and used again; a
/// kept one that turns out to be closed is replaced once. Blocks until all requests are over.
LoadResult run_load(const Target& target, const LoadPlan& plan);

/// One request of such a plan, on a connection of its own.
RequestOutcome run_one(const Target& target, const LoadPlan& plan, const LoadRequest& request);

}  // namespace glint::bench
