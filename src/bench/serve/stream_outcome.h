// What a streamed answer says about itself: the times of its chunks and the server's own counts, as vLLM's
// client takes them.
//
// Time to first token: the first chunk with a non-empty `choices`, even if its text is empty. Each later one
// adds an inter-token latency. `usage` is the truth about tokens. The request ends with the last chunk that
// has choices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/client/http_reader.h"

namespace glint::bench {

struct RequestOutcome {
  bool success = false;
  std::string error;
  std::string text;
  double start_s = 0;  // of the monotonic clock, when the request had its place
  double ttft_s = 0;   // behind start_s, as the next two
  double latency_s = 0;
  std::vector<double> itl_s;
  double queue_s = 0;         // waited for its place
  int64_t prompt_tokens = 0;  // of `usage`, else what was sent
  int64_t output_tokens = 0;  // of `usage`; 0: not told
};

enum class StreamFormat { completions, chat };

/// When the time of a chunk is taken.
enum class ChunkClock {
  native,  // when its bytes were read from the socket
  compat   // where vLLM's client takes it: chunk by chunk, behind the parsing of those before it
};

class StreamListener {
 public:
  StreamListener(StreamFormat format, ChunkClock clock) : format_(format), clock_(clock) {}

  /// Bytes of the body, read at `at_s`.
  void feed(std::string_view bytes, double at_s, RequestOutcome& outcome);
  /// The answer was complete. Decides about success.
  void finish(RequestOutcome& outcome) const;

 private:
  void take(std::string_view data, double at_s, RequestOutcome& outcome);

  StreamFormat format_;
  ChunkClock clock_;
  SseReader events_;
  bool first_seen_ = false;
  double last_s_ = 0;
};

}  // namespace glint::bench
