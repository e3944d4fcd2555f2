#include "bench/serve/arrivals.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace glint::bench {

namespace {

double rate_of(const Traffic& traffic, size_t index, size_t count) {
  if (traffic.ramp_up_strategy.empty()) return traffic.request_rate;
  const double progress = static_cast<double>(index) / static_cast<double>(std::max<size_t>(count - 1, 1));
  const auto start = static_cast<double>(traffic.ramp_up_start_rps);
  const auto end = static_cast<double>(traffic.ramp_up_end_rps);
  if (traffic.ramp_up_strategy == "linear") return start + (end - start) * progress;
  return start * std::pow(end / start, progress);
}

double gap(double rate, double burstiness, NumpyLegacyRandom& numpy) {
  if (std::isinf(rate)) return 0;
  if (std::isinf(burstiness)) return 1.0 / rate;
  return numpy.gamma(burstiness, 1.0 / (rate * burstiness));
}

}  // namespace

std::vector<Arrival> plan_arrivals(const Traffic& traffic, size_t count, NumpyLegacyRandom& numpy) {
  std::vector<Arrival> arrivals(count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double rate = rate_of(traffic, i, count);
    if (!(rate > 0)) fail(ErrorKind::bad_input, "Obtained non-positive request rate ", rate, ".");
    sum += gap(rate, traffic.burstiness, numpy);
    arrivals[i] = {sum, rate};
  }
  if (traffic.ramp_up_strategy.empty() && sum != 0) {
    const double factor = static_cast<double>(count) / traffic.request_rate / sum;
    for (Arrival& arrival : arrivals) arrival.due_s *= factor;
  }
  return arrivals;
}

void check_traffic(const Traffic& traffic, bool start_given, bool end_given) {
  if (!(traffic.burstiness > 0)) {
    fail(ErrorKind::bad_input, "A positive burstiness factor is expected, but given ", traffic.burstiness,
         ".");
  }
  if (traffic.ramp_up_strategy.empty()) {
    if (!(traffic.request_rate > 0)) {
      fail(ErrorKind::bad_input, "argument --request-rate: expected a number above 0 or inf, got ",
           traffic.request_rate);
    }
    return;
  }
  if (!std::isinf(traffic.request_rate)) {
    fail(ErrorKind::bad_input,
         "When using ramp-up, do not specify --request-rate. The request rate will be controlled by ramp-up "
         "parameters. Please remove the --request-rate argument.");
  }
  if (!start_given || !end_given) {
    fail(ErrorKind::bad_input,
         "When using --ramp-up-strategy, both --ramp-up-start-rps and --ramp-up-end-rps must be specified");
  }
  if (traffic.ramp_up_start_rps < 0 || traffic.ramp_up_end_rps < 0) {
    fail(ErrorKind::bad_input, "Ramp-up start and end RPS must be non-negative");
  }
  if (traffic.ramp_up_start_rps > traffic.ramp_up_end_rps) {
    fail(ErrorKind::bad_input, "Ramp-up start RPS must be less than end RPS");
  }
  if (traffic.ramp_up_start_rps == 0) {
    fail(ErrorKind::bad_input,
         traffic.ramp_up_strategy == "exponential"
             ? "For exponential ramp-up, the start RPS cannot be 0."
             : "Obtained non-positive request rate 0: --ramp-up-start-rps must be above 0");
  }
}

}  // namespace glint::bench
