#include "quantize/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace glint::quantize {

namespace {

Json stats_json(const std::pair<std::string, CodingStats>& entry) {
  const CodingStats& s = entry.second;
  return {entry.first, s.power, s.error, s.error_of_max, s.amax, s.subnormal_scales};
}

std::pair<std::string, CodingStats> parsed_stats(const Json& list) {
  CodingStats s;
  s.power = list.at(1);
  s.error = list.at(2);
  s.error_of_max = list.at(3);
  s.amax = list.at(4);
  s.subnormal_scales = list.at(5);
  s.coded = true;
  return {list.at(0).get<std::string>(), s};
}

}  // namespace

Journal::Journal(const std::filesystem::path& folder, const std::string& plan_hash) : path_(folder / kName) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(ErrorKind::io, path_.string(), ": cannot open: ", std::strerror(errno));
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      fail(ErrorKind::bad_input, folder.string(),
           ": another conversion writes here: wait for it or stop it first");
    }
    std::string text = read_file(path_);
    const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    // A line cut short by a kill must not grow into the next one.
    if (whole != text.size() && ::ftruncate(descriptor_, static_cast<off_t>(whole)) != 0) {
      fail(ErrorKind::io, path_.string(), ": cannot truncate: ", std::strerror(errno));
    }
    text.resize(whole);
    if (text.empty()) {
      append(dump_json(Json{{"plan", plan_hash}}));
    } else {
      read(text, plan_hash);
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

Journal::~Journal() {
  ::close(descriptor_);
}

void Journal::read(const std::string& text, const std::string& plan_hash) {
  size_t begin = 0;
  bool first = true;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    const Json line = parse_json(std::string_view(text).substr(begin, end - begin), path_.string());
    begin = end + 1;
    if (first && line.value("plan", "") != plan_hash) {
      fail(ErrorKind::bad_input, path_.parent_path().string(),
           ": was begun with other options, another program version or "
           "a source that changed since: resume with what it was begun with, or remove this folder");
    }
    first = false;
    if (line.contains("seconds")) earlier_seconds_ = line.at("seconds");
    if (line.contains("source")) sources_[line.at("source")] = line.at("sha256");
    if (!line.contains("shard")) continue;
    ShardRecord record;
    record.bytes = line.at("bytes");
    record.sha256 = line.at("sha256");
    for (const Json& entry : line.at("stats")) record.stats.push_back(parsed_stats(entry));
    shards_[line.at("shard")] = std::move(record);
  }
}

void Journal::append(const std::string& line) {
  std::string bytes = line + "\n";
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t done = ::write(descriptor_, rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(ErrorKind::io, path_.string(), ": cannot write: ", std::strerror(errno));
    rest.remove_prefix(static_cast<size_t>(done));
  }
  if (::fsync(descriptor_) != 0)
    fail(ErrorKind::io, path_.string(), ": cannot fsync: ", std::strerror(errno));
}

void Journal::add_shard(const std::string& file, const ShardRecord& record, double seconds) {
  Json stats = Json::array();
  for (const auto& entry : record.stats) stats.push_back(stats_json(entry));
  const std::lock_guard lock(mutex_);
  append(dump_json(Json{{"shard", file},
                        {"bytes", record.bytes},
                        {"sha256", record.sha256},
                        {"stats", std::move(stats)},
                        {"seconds", earlier_seconds_ + seconds}}));
  shards_[file] = record;
}

void Journal::add_source(const std::string& file, const std::string& sha256, double seconds) {
  const std::lock_guard lock(mutex_);
  append(dump_json(Json{{"source", file}, {"sha256", sha256}, {"seconds", earlier_seconds_ + seconds}}));
  sources_[file] = sha256;
}

}  // namespace glint::quantize
