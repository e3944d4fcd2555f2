#include "quantize/converter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/numeric.h"
#include "quantize/lane_run.h"

namespace glint::quantize {

namespace {

constexpr auto kProgressInterval = std::chrono::milliseconds(100);
/// Hashing reads at memory speed, but one shard at a time would be slower than many lanes.
constexpr int kLanesPerFinisher = 4;

void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

Converter::Converter(const QuantizeOptions& options, const Plan& plan, Journal* journal,
                     ConverterOptions more)
    : options_(options),
      plan_(plan),
      journal_(journal),
      more_(std::move(more)),
      codec_(codec(options.isa)),
      files_(plan, more_.folder,
             [this](uint32_t shard) {
               const std::lock_guard lock(mutex_);
               complete_.push_back(shard);
               changed_.notify_all();
             }),
      stats_(plan.jobs.size()),
      start_(std::chrono::steady_clock::now()) {
  take_earlier_work();
  for (const Lane& lane : plan.lanes) {
    if (lanes_.size() < more_.lanes_max && lane_needed(lane)) lanes_.push_back(lane.file);
  }
  for (const uint32_t lane : lanes_) bytes_total_ += LaneRun::bytes(*this, plan_.lanes[lane]);
  if (more_.folder.empty()) return;
  for (uint32_t shard = 0; shard < plan.shards.size(); ++shard) {
    if (!files_.is_done(shard)) bytes_total_ += plan.shards[shard].bytes;
  }
}

double Converter::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Converter::take_earlier_work() {
  if (journal_ == nullptr) return;
  std::map<std::string, size_t> jobs;
  for (size_t job = 0; job < plan_.jobs.size(); ++job) jobs.emplace(plan_.jobs[job].name, job);
  for (uint32_t number = 0; number < plan_.shards.size(); ++number) {
    const OutputShard& shard = plan_.shards[number];
    const auto record = journal_->shards().find(shard.file);
    if (record == journal_->shards().end()) continue;
    const std::filesystem::path path = more_.folder / shard.file;
    std::error_code error;
    if (record->second.bytes != shard.bytes ||
        static_cast<int64_t>(std::filesystem::file_size(path, error)) != shard.bytes || error) {
      journal_->forget_shard(shard.file);
      continue;
    }
    files_.mark_done(number);
    for (const auto& [name, stats] : record->second.stats) stats_[jobs.at(name)] = stats;
  }
}

bool Converter::step_needed(const LaneStep& step) const {
  if (step.kind == LaneStep::Kind::pass) return false;
  return !files_.is_done(plan_.outputs[plan_.jobs[step.job].output_first].shard);
}

bool Converter::hash_needed(uint32_t file) const {
  return journal_ != nullptr && journal_->sources().count(plan_.files[file].name) == 0;
}

bool Converter::lane_needed(const Lane& lane) const {
  if (journal_ == nullptr || hash_needed(lane.file)) return true;
  return std::any_of(lane.steps.begin(), lane.steps.end(),
                     [&](const LaneStep& step) { return step_needed(step); });
}

void Converter::fail_all(std::exception_ptr failure) {
  stop_ = true;
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  changed_.notify_all();
}

void Converter::lane_loop() {
  try {
    for (size_t i = next_lane_++; i < lanes_.size() && !stop_; i = next_lane_++) {
      LaneRun(*this, plan_.lanes[lanes_[i]]).run();
    }
  } catch (...) {
    fail_all(std::current_exception());
  }
  const std::lock_guard lock(mutex_);
  --lanes_running_;
  changed_.notify_all();
}

void Converter::finish_loop() {
  for (;;) {
    uint32_t shard = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !complete_.empty() || lanes_running_ == 0 || stop_; });
      if (stop_ || complete_.empty()) {
        --finishers_running_;
        changed_.notify_all();
        return;
      }
      shard = complete_.front();
      complete_.pop_front();
    }
    try {
      finish_shard(shard);
    } catch (...) {
      fail_all(std::current_exception());
    }
  }
}

void Converter::finish_shard(uint32_t number) {
  const OutputShard& shard = plan_.shards[number];
  if (more_.at_place) more_.at_place("before a shard is named");
  ShardRecord record;
  record.bytes = shard.bytes;
  record.sha256 = files_.finish(number, [&](int64_t bytes) { bytes_done_ += bytes; });
  if (more_.at_place) more_.at_place("after a shard is named");
  if (journal_ == nullptr) return;
  std::vector<uint32_t> jobs;
  for (const uint32_t output : shard.outputs) jobs.push_back(plan_.outputs[output].job);
  std::sort(jobs.begin(), jobs.end());
  jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
  for (const uint32_t job : jobs) {
    if (stats_[job].coded) record.stats.emplace_back(plan_.jobs[job].name, stats_[job]);
  }
  flush_folder(more_.folder);
  journal_->add_shard(shard.file, record, seconds());
  if (more_.at_place) more_.at_place("after a shard is in the journal");
}

void Converter::watch() {
  std::unique_lock lock(mutex_);
  while (lanes_running_ > 0 || finishers_running_ > 0) {
    changed_.wait_for(lock, kProgressInterval);
    lock.unlock();
    if (more_.progress) more_.progress(bytes_done_, bytes_total_);
    lock.lock();
  }
}

void Converter::run() {
  std::vector<std::thread> threads;
  lanes_running_ = plan_.workers;
  finishers_running_ = 1 + (plan_.workers - 1) / kLanesPerFinisher;
  const int finishers = finishers_running_;
  for (int i = 0; i < plan_.workers; ++i) threads.emplace_back([this] { lane_loop(); });
  for (int i = 0; i < finishers; ++i) threads.emplace_back([this] { finish_loop(); });
  watch();
  for (std::thread& thread : threads) thread.join();
  if (failure_) std::rethrow_exception(failure_);
  if (more_.progress) more_.progress(bytes_done_, bytes_total_);
  if (more_.folder.empty()) return;
  GLINT_CHECK(waiting_.empty());
  for (uint32_t shard = 0; shard < plan_.shards.size(); ++shard) GLINT_CHECK(files_.is_done(shard));
}

void Converter::meet(Weights weights) {
  const Job& job = plan_.jobs[weights.job];
  if (job.partner < 0) return code(weights, weights.amax);
  Weights partner;
  {
    const std::lock_guard lock(waiting_mutex_);
    const auto at = waiting_.find(static_cast<uint32_t>(job.partner));
    if (at == waiting_.end()) {
      const uint32_t number = weights.job;
      waiting_.emplace(number, std::move(weights));
      return;
    }
    partner = std::move(at->second);
    waiting_.erase(at);
  }
  const uint16_t amax = std::max(weights.amax, partner.amax);
  code(partner, amax);
  code(weights, amax);
}

void Converter::code(const Weights& weights, uint16_t group_amax) {
  const Job& job = plan_.jobs[weights.job];
  const float global_scale = global_scale_of(bf16_to_float(group_amax), options_.global_scale);
  const auto count = static_cast<int64_t>(weights.bits.size());
  const Buffer coded = pool_.take(count / 2 + count / kBlock);
  auto* const packed = static_cast<uint8_t*>(static_cast<void*>(coded.data()));
  uint8_t* const scales = packed + count / 2;
  stats_[weights.job] = code_nvfp4(codec_, weights.bits, weights.block_amax, global_scale,
                                   options_.scale_search, packed, scales);
  constexpr float kInputScale = 1.0F;
  files_.write_values(job.output_first, 0, packed, count / 2);
  files_.write_values(job.output_first + 1, 0, scales, count / kBlock);
  files_.write_values(job.output_first + 2, 0, &global_scale, 1);
  files_.write_values(job.output_first + 3, 0, &kInputScale, 1);
}

}  // namespace glint::quantize
