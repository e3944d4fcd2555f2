// Which gate or up projections may wait in memory for their partner, and which are read again.
#include <algorithm>

#include "base/error.h"
#include "base/threads.h"
#include "quantize/plan_source.h"

namespace glint::quantize {

namespace {

/// The bytes that wait in each lane, if every partner that the plan lets wait does.
class HoldPlan {
 public:
  HoldPlan(const QuantizeOptions& options, Plan& plan)
      : plan_(plan), limit_(options.hold_bytes), load_(plan.lanes.size()) {}

  void decide() {
    order();
    for (Job& job : plan_.jobs) {
      if (job.partner < 0 || !is_first(job)) continue;
      Job& second = plan_.jobs[static_cast<size_t>(job.partner)];
      if (!hold(job, second)) {
        job.partner_reread = second.partner_reread = true;
        plan_.reread_bytes += job.stored[0].bytes;
      }
    }
    for (Lane& lane : plan_.lanes) {
      for (LaneStep& step : lane.steps) {
        const Job& job = plan_.jobs[step.job];
        if (step.kind == LaneStep::Kind::convert && job.partner_reread && is_first(job)) {
          step.kind = LaneStep::Kind::pass;
        }
      }
    }
    plan_.hold_bytes_max = *std::max_element(load_.begin(), load_.end());
  }

 private:
  void order() {
    place_.resize(plan_.jobs.size());
    for (const Lane& lane : plan_.lanes) {
      for (size_t i = 0; i < lane.steps.size(); ++i) {
        if (lane.steps[i].kind == LaneStep::Kind::convert) place_[lane.steps[i].job] = {lane.file, i};
      }
    }
  }

  [[nodiscard]] size_t number(const Job& job) const { return static_cast<size_t>(&job - plan_.jobs.data()); }
  [[nodiscard]] bool is_first(const Job& job) const {
    return place_[number(job)] < place_[static_cast<size_t>(job.partner)];
  }

  /// Lanes run beside each other, so a partner in another lane may wait from the time that lane starts, up to
  /// `workers` lanes early, until the later one ends. In the same lane the wait is short if nothing that
  /// waits lies between; it then counts in that lane alone.
  bool hold(const Job& first, const Job& second) {
    const int64_t bytes = first.elements() * 2;
    const auto [from, from_step] = place_[number(first)];
    const auto [to, to_step] = place_[number(second)];
    if (from == to) return hold_inside(from, from_step, to_step, bytes);
    const size_t begin = from - std::min<size_t>(from, static_cast<size_t>(plan_.workers));
    for (size_t lane = begin; lane <= to; ++lane) {
      if (load_[lane] + bytes > limit_) return false;
    }
    for (size_t lane = begin; lane <= to; ++lane) load_[lane] += bytes;
    return true;
  }

  /// Pairs are met in the order of the model, which need not be the file's: waits inside a lane are kept as
  /// intervals of steps.
  bool hold_inside(size_t lane, size_t begin, size_t end, int64_t bytes) {
    if (inside_.size() <= lane) inside_.resize(plan_.lanes.size());
    int64_t together = bytes;
    for (const Interval& other : inside_[lane]) {
      if (other.begin < end && begin < other.end) together += other.bytes;
    }
    if (together > limit_ / 4) return false;
    if (end - begin > 8) inside_[lane].push_back({begin, end, bytes});
    plan_.local_hold_bytes_max = std::max(plan_.local_hold_bytes_max, together);
    return true;
  }

  struct Interval {
    size_t begin, end;
    int64_t bytes;
  };
  Plan& plan_;
  int64_t limit_;
  std::vector<int64_t> load_;
  std::vector<std::pair<size_t, size_t>> place_;
  std::vector<std::vector<Interval>> inside_;
};

}  // namespace

void plan_partners(const QuantizeOptions& options, Plan& plan) {
  const int cpus = options.workers > 0 ? options.workers : ThreadPool(0).size();
  plan.workers = std::min(cpus, static_cast<int>(plan.lanes.size()));
  HoldPlan(options, plan).decide();
  for (const Job& job : plan.jobs) {
    if (!job.converts()) continue;
    const bool whole = job.to == Form::nvfp4;
    const int64_t bytes =
        whole ? job.elements() * 2 : std::min(job.elements() * 2, std::max(kPieceBytes, job.shape[1] * 256));
    plan.convert_bytes_max = std::max(plan.convert_bytes_max, bytes);
  }
}

}  // namespace glint::quantize
