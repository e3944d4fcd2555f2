#include "checkpoint/hub/file_download.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "base/log.h"

namespace glint::hub {

namespace {

constexpr int kRestartsMax = 3;

/// Bytes of a regular file, links followed; -1 if there is none.
int64_t size_of(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return -1;
  return info.st_size;
}

/// The numbers of "bytes FIRST-LAST/TOTAL"; TOTAL may be "*": -1. False if the text is another.
bool parse_content_range(std::string_view text, int64_t& first, int64_t& total) {
  if (!text.starts_with("bytes ")) return false;
  text.remove_prefix(6);
  const char* const end = text.data() + text.size();
  int64_t last = 0;
  auto at = std::from_chars(text.data(), end, first);
  if (at.ec != std::errc() || at.ptr == end || *at.ptr != '-') return false;
  at = std::from_chars(at.ptr + 1, end, last);
  if (at.ec != std::errc() || at.ptr == end || *at.ptr != '/') return false;
  total = -1;
  if (std::string_view(at.ptr + 1, static_cast<size_t>(end - at.ptr - 1)) == "*") return true;
  at = std::from_chars(at.ptr + 1, end, total);
  return at.ec == std::errc() && at.ptr == end;
}

}  // namespace

FileDownload::FileDownload(const HubSettings& settings, const HubApi& api, const RepoCache& cache,
                           const std::string& commit, const RemoteFile& file, std::atomic<int64_t>& arrived,
                           const StopFlag& stop)
    : settings_(settings),
      api_(api),
      cache_(cache),
      commit_(commit),
      file_(file),
      arrived_(arrived),
      stop_(stop) {}

bool FileDownload::present() const {
  return size_of(cache_.snapshot(commit_) / file_.name) == file_.bytes;
}

int64_t FileDownload::missing_bytes() const {
  if (present() || size_of(cache_.blob(file_.sum)) == file_.bytes) return 0;
  const int64_t partial = size_of(cache_.partial(file_.sum));
  return partial > 0 && partial <= file_.bytes ? file_.bytes - partial : file_.bytes;
}

bool FileDownload::run(HttpClient& client) {
  if (present()) return true;
  const std::optional<FileLock> lock = FileLock::try_lock(cache_.lock(file_.sum));
  if (!lock) return false;
  const int64_t before = arrived_;
  if (size_of(cache_.blob(file_.sum)) != file_.bytes) fetch(client);
  cache_.link(commit_, file_.name, file_.sum);
  arrived_ = std::max(before, file_.bytes);
  return true;
}

void FileDownload::fetch(HttpClient& client) {
  PartialFile part(cache_.partial(file_.sum), file_);
  if (part.bytes() > 0) {
    log_info("Continuing ", file_.name, " at ", part.bytes(), " of ", file_.bytes, " bytes");
  }
  Patience patience(settings_, stop_);
  for (;;) {
    arrived_ = part.bytes();
    while (!part.whole()) {
      try {
        receive(client, part, patience);
      } catch (const Error& error) {
        patience.failed(error);
      }
    }
    const std::string sum = part.sum();
    if (sum == file_.sum) break;
    restart(part,
            cat("its ", file_.large() ? "SHA-256" : "git SHA-1", " is ", sum, ", the hub lists ", file_.sum));
  }
  part.publish(cache_.blob(file_.sum));
}

void FileDownload::restart(PartialFile& part, const std::string& why) {
  part.restart();
  arrived_ = 0;
  if (++restarts_ > kRestartsMax) {
    fail(ErrorKind::io, file_.name, " of ", api_.repo(), ": ", why, " (", restarts_,
         " times; nothing of it was kept)");
  }
  log_warning(file_.name, ": ", why, "; starting it again");
}

void FileDownload::check_head(const HttpResponse& response, PartialFile& part) {
  int64_t first = 0;
  int64_t total = file_.bytes;
  if (response.status == 416) {
    restart(part, "the hub has no bytes to continue with (416)");
    throw Retryable(file_.name + ": asked for bytes that the hub does not have (416)");
  }
  if (response.status == 206) {
    if (!parse_content_range(response.header("content-range"), first, total)) first = -1;
    if (first != part.bytes()) {
      throw Retryable(cat(file_.name, ": asked for bytes from ", part.bytes(), ", the answer is of '",
                          response.header("content-range"), "'"));
    }
  } else {
    const std::string length = response.header("content-length");
    if (!length.empty()) std::from_chars(length.data(), length.data() + length.size(), total);
    if (part.bytes() > 0) restart(part, "the hub sends whole files only");
  }
  if (total >= 0 && total != file_.bytes) {
    throw Retryable(cat(file_.name, ": the hub lists ", file_.bytes, " bytes and sends ", total));
  }
}

void FileDownload::receive(HttpClient& client, PartialFile& part, Patience& patience) {
  const HttpResponse response = api_.open(client, commit_, file_, part.bytes());
  check_head(response, part);
  for (auto bytes = client.read(); !bytes.empty(); bytes = client.read()) {
    if (stop_) throw Stopped{};
    part.append(bytes);
    arrived_ = part.bytes();
    patience.progress();
  }
  if (!part.whole()) {
    throw Retryable(
        cat(file_.name, ": the answer ended after ", part.bytes(), " of ", file_.bytes, " bytes"));
  }
}

}  // namespace glint::hub
