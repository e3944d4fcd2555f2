#include "checkpoint/hub/download.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/progress.h"
#include "checkpoint/hub/file_download.h"

namespace glint::hub {

namespace {

constexpr auto kReportInterval = std::chrono::milliseconds(100);
constexpr auto kBusyPause = std::chrono::milliseconds(200);
// Beside the files themselves: folders, links, the last blocks of files.
constexpr int64_t kReserveBytes = int64_t{16} << 20;

std::string gigabytes(int64_t bytes) {
  const int64_t hundredths = (bytes + 9'999'999) / 10'000'000;
  const std::string fraction = std::to_string(hundredths % 100);
  return cat(hundredths / 100, fraction.size() < 2 ? ".0" : ".", fraction, " GB (", bytes, " bytes)");
}

void check_space(const RepoCache& cache, const std::string& repo, int64_t wanted) {
  struct statvfs disk {};
  if (wanted == 0 || ::statvfs(cache.folder().c_str(), &disk) != 0) return;
  const auto available = static_cast<__int128>(disk.f_bavail) * static_cast<__int128>(disk.f_frsize);
  const auto room = static_cast<int64_t>(std::min<__int128>(available, int64_t{1} << 62));
  if (room >= wanted + kReserveBytes) return;
  fail(ErrorKind::io, repo, " needs ", gigabytes(wanted), " in ", cache.root().string(), " and ",
       gigabytes(room),
       " are free; nothing was downloaded (--download-dir or HF_HUB_CACHE chooses another disk)");
}

/// The files that are to come and the threads that bring them.
class Crew {
 public:
  Crew(const HubSettings& settings, const HubApi& api, const RepoCache& cache, const std::string& commit,
       const std::vector<RemoteFile>& files)
      : settings_(settings), arrived_(files.size()) {
    jobs_.reserve(files.size());
    for (size_t i = 0; i < files.size(); ++i) {
      FileDownload job(settings, api, cache, commit, files[i], arrived_[i], stop_);
      if (job.present()) continue;
      jobs_.push_back(job);
      queue_.push_back(jobs_.size() - 1);
      total_ += files[i].bytes;
    }
  }

  [[nodiscard]] size_t files() const { return jobs_.size(); }
  [[nodiscard]] int64_t total_bytes() const { return total_; }
  [[nodiscard]] int64_t missing_bytes() const {
    int64_t bytes = 0;
    for (const FileDownload& job : jobs_) bytes += job.missing_bytes();
    return bytes;
  }

  /// False if `report` did not want the rest. Throws the first failure.
  bool run(const DownloadProgress& report) {
    const size_t count = std::min(jobs_.size(), static_cast<size_t>(settings_.connections));
    running_ = count;
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (size_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    bool wanted = true;
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      ended_.wait_for(lock, kReportInterval);
      lock.unlock();
      if (wanted && !report(arrived_bytes(), total_)) {
        wanted = false;
        stop_ = true;
      }
      lock.lock();
    }
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    return wanted;
  }

 private:
  [[nodiscard]] int64_t arrived_bytes() const {
    int64_t bytes = 0;
    for (const std::atomic<int64_t>& file : arrived_) bytes += file;
    return std::min(bytes, total_);
  }

  void work() {
    try {
      HttpClient client(settings_.http);
      for (std::optional<size_t> job = take(); job; job = take()) {
        if (jobs_[*job].run(client)) {
          rest();
        } else {
          give_back(*job);
        }
      }
    } catch (const Stopped&) {
      // Who set the flag knows.
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      stop_ = true;
    }
    const std::lock_guard lock(mutex_);
    --running_;
    ended_.notify_all();
  }

  void rest() const {
    if (stop_) throw Stopped{};
  }

  std::optional<size_t> take() {
    rest();
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return std::nullopt;
    const size_t job = queue_.front();
    queue_.pop_front();
    return job;
  }

  void give_back(size_t job) {
    {
      const std::lock_guard lock(mutex_);
      if (!waited_) log_info("Another process downloads a file of this model; waiting for it");
      waited_ = true;
      queue_.push_back(job);
    }
    std::this_thread::sleep_for(kBusyPause);
  }

  const HubSettings& settings_;
  std::vector<std::atomic<int64_t>> arrived_;
  std::vector<FileDownload> jobs_;
  StopFlag stop_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::deque<size_t> queue_;
  std::exception_ptr failure_;
  size_t running_ = 0;
  int64_t total_ = 0;
  bool waited_ = false;
};

}  // namespace

bool download_files(const HubSettings& settings, const HubApi& api, const RepoCache& cache,
                    const std::string& commit, const std::vector<RemoteFile>& files,
                    const DownloadProgress& progress) {
  cache.create();
  Crew crew(settings, api, cache, commit, files);
  if (crew.files() == 0) return true;
  check_space(cache, api.repo(), crew.missing_bytes());
  const char* const noun = crew.files() == 1 ? " file" : " files";
  Progress bar(cat("Downloading ", crew.files(), noun, " of ", api.repo()));
  const bool done = crew.run([&](int64_t arrived, int64_t total) {
    if (settings.progress) bar.update(arrived, total);
    return !progress || progress(arrived, total);
  });
  if (done && settings.progress) bar.finish(crew.total_bytes());
  return done;
}

}  // namespace glint::hub
