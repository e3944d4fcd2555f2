#include "quantize/quantize.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "quantize/converter.h"
#include "quantize/publish.h"

namespace glint::quantize {

namespace {

namespace fs = std::filesystem;

fs::path clean(const fs::path& path) {
  const fs::path normal = fs::weakly_canonical(fs::absolute(path));
  return normal.has_filename() ? normal : normal.parent_path();
}

bool is_inside(const fs::path& inner, const fs::path& outer) {
  const fs::path relative = inner.lexically_relative(outer);
  return !relative.empty() && *relative.begin() != "..";
}

bool is_occupied(const fs::path& folder) {
  return fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder));
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

void flush_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 || ::fsync(descriptor) != 0) {
    const int code = errno;
    if (descriptor >= 0) ::close(descriptor);
    fail(ErrorKind::io, folder.string(), ": cannot fsync: ", std::strerror(code));
  }
  ::close(descriptor);
}

/// Bytes of finished shards that an earlier run left.
int64_t bytes_there(const fs::path& staging) {
  int64_t bytes = 0;
  if (!fs::exists(staging)) return 0;
  for (const auto& entry : fs::directory_iterator(staging)) {
    if (entry.path().extension() == ".safetensors") bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

void check_room(const fs::path& staging, const Plan& plan) {
  fs::path existing = staging;
  while (!fs::exists(existing)) existing = existing.parent_path();
  struct statvfs status {};
  if (::statvfs(existing.c_str(), &status) != 0) return;
  const auto free = static_cast<int64_t>(status.f_bavail * status.f_frsize);
  const int64_t needed = plan.output_bytes() - bytes_there(staging);
  if (free >= needed) return;
  fail(ErrorKind::io, staging.parent_path().string(), ": has room for ", free,
       " bytes, but the output needs ", needed, " more: make room or choose another folder");
}

/// A complete output of the same plan: what a run leaves that was killed after its last step.
bool is_complete_output(const fs::path& out, const Plan& plan) {
  if (!fs::exists(out / kManifestName)) return false;
  const Json manifest = parse_json(read_file(out / kManifestName), (out / kManifestName).string());
  return manifest.is_object() && manifest.value("plan", "") == plan.hash;
}

void remove_leftovers(const fs::path& staging) {
  for (const auto& entry : fs::directory_iterator(staging)) {
    if (entry.path().filename().string().find(".partial") != std::string::npos) fs::remove(entry.path());
  }
}

/// Removes what this program made, and the folder if nothing else is in it.
void remove_staging(const fs::path& staging, const Plan& plan) {
  std::error_code ignored;
  remove_leftovers(staging);
  for (const OutputShard& shard : plan.shards) fs::remove(staging / shard.file, ignored);
  fs::remove(staging / Journal::kName, ignored);
  fs::remove(staging, ignored);
}

void publish(const fs::path& staging, const fs::path& out, const QuantizeHooks& hooks) {
  const auto at = [&](std::string_view place) {
    if (hooks.at_place) hooks.at_place(place);
  };
  flush_folder(staging);
  at("before the folder is named");
  if (::rename(staging.c_str(), out.c_str()) != 0) {
    fail(ErrorKind::io, out.string(), ": cannot rename ", staging.filename().string(),
         " to it: ", std::strerror(errno));
  }
  flush_folder(out.parent_path());
  at("after the folder is named");
  fs::remove(out / Journal::kName);
}

}  // namespace

fs::path staging_folder(const fs::path& out) {
  return clean(out).string() + ".partial";
}

void check_places(const QuantizeOptions& options, const Plan& plan) {
  const fs::path source = clean(options.source);
  const fs::path out = clean(options.out);
  const fs::path staging = staging_folder(options.out);
  if (is_inside(out, source)) {
    fail(ErrorKind::bad_input, options.out.string(), ": lies in the source folder ", options.source.string(),
         ": choose a folder outside of it");
  }
  if (is_inside(source, out)) {
    fail(ErrorKind::bad_input, options.out.string(), ": holds the source folder ", options.source.string(),
         ": choose a folder outside of it");
  }
  if (is_occupied(out) && !(options.resume && is_complete_output(out, plan))) {
    fail(ErrorKind::bad_input, options.out.string(), ": exists already: choose a new folder or remove it");
  }
  if (fs::exists(staging) && !options.resume) {
    fail(ErrorKind::bad_input, staging.string(),
         ": holds an unfinished conversion: continue it with --resume or remove it");
  }
  check_room(staging, plan);
}

QuantizeOutcome quantize(const QuantizeOptions& options, const Plan& plan, const QuantizeHooks& hooks) {
  check_places(options, plan);
  const fs::path out = clean(options.out);
  const fs::path staging = staging_folder(options.out);
  QuantizeOutcome outcome;
  if (is_occupied(out)) {
    std::error_code ignored;
    fs::remove(out / Journal::kName, ignored);
    outcome.was_complete = true;
    return outcome;
  }
  RunFacts facts;
  facts.program_version = hooks.program_version;
  facts.started = utc_now();
  const auto start = std::chrono::steady_clock::now();
  std::error_code error;
  fs::create_directories(staging, error);
  if (error) fail(ErrorKind::io, staging.string(), ": cannot make this folder: ", error.message());
  bool anything_done = true;
  try {
    Journal journal(staging, plan.hash);
    facts.resumed = !journal.shards().empty() || !journal.sources().empty();
    anything_done = facts.resumed;
    remove_leftovers(staging);
    Converter converter(options, plan, &journal, {staging, SIZE_MAX, hooks.progress, hooks.at_place});
    try {
      converter.run();
    } catch (const Error& failure) {
      // A source that must change first makes another plan: what is finished could never be used.
      anything_done = failure.kind() != ErrorKind::bad_input && !journal.shards().empty();
      throw;
    }
    anything_done = true;
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    outcome.bytes_read = facts.bytes_read = converter.bytes_read();
    outcome.peak_buffer_bytes = converter.peak_buffer_bytes();
    outcome.total = total_stats(converter.stats());
    facts.seconds = journal.earlier_seconds() + outcome.seconds;
    facts.finished = utc_now();
    if (hooks.at_place) hooks.at_place("before the side files");
    write_side_files(plan, options, converter.stats(), journal, facts, staging);
  } catch (...) {
    if (!anything_done) remove_staging(staging, plan);
    throw;
  }
  publish(staging, out, hooks);
  return outcome;
}

}  // namespace glint::quantize
