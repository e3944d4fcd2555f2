// When each request of a benchmark is sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/serve/random_numbers.h"

namespace glint::bench {

struct Traffic {
  double request_rate = 0;       // a second; infinity: all at once
  double burstiness = 1;         // shape of the gamma distribution of the gaps; infinity: constant gaps
  std::string ramp_up_strategy;  // "", "linear" or "exponential"
  int64_t ramp_up_start_rps = 0, ramp_up_end_rps = 0;
};

struct Arrival {
  double due_s = 0;  // behind the start
  double rate = 0;   // at this request
};

/// Gaps are drawn from `numpy` one by one, the first before the first request, and added up. Without ramp-up
/// all is scaled so that the last request comes at count / rate. Throws bad_input for a rate that is not
/// above 0.
std::vector<Arrival> plan_arrivals(const Traffic& traffic, size_t count, NumpyLegacyRandom& numpy);

/// Throws bad_input, in vLLM's words, for bounds that make no ramp, or one beside a request rate.
void check_traffic(const Traffic& traffic, bool start_given, bool end_given);

}  // namespace glint::bench
