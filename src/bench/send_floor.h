// What streaming costs at the least on this machine: the system's own cost of sending to many sockets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/stream_client.h"

namespace glint::bench {

/// CPU seconds of this process for each send() of `bytes` bytes to one of `streams` loopback connections that
/// `clients` (not started yet) reads: all streams in turn, `rounds` times, a pause of `pause_ms` between. On
/// loopback the sender also pays for the receiver's side of the protocol. Throws io if the system refuses.
double send_floor_s(const StreamClients& clients, int streams, size_t bytes, int rounds, int64_t pause_ms);

/// CPU seconds that this process has used so far.
double process_cpu_s();

}  // namespace glint::bench
