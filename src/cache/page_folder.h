// A folder of page files, "<16 digits of the fingerprint>-<64 digits of the page hash>.page", for one process
// at a time. A file gets its name by rename once its data is on the device, so what has the name is whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "cache/page_file.h"

namespace glint {

/// A file of the folder.
struct StoredPage {
  PageHash hash;
  uint64_t fingerprint = 0;  // the first 8 bytes of it
  int64_t bytes = 0;
};

enum class PageRead { good, missing, damaged, foreign, failed };

class PageFolder {
 public:
  /// Makes the folder if need be and locks it (flock on the file "lock", which goes with the process).
  /// Throws io if that is impossible and says which process holds it.
  PageFolder(std::filesystem::path folder, const PageFileFormat& format);
  virtual ~PageFolder();
  PageFolder(const PageFolder&) = delete;
  PageFolder& operator=(const PageFolder&) = delete;

  struct Scan {
    std::vector<StoredPage> pages;  // the least recently used first
    int64_t damaged = 0;            // of this fingerprint but of another size: removed
    int64_t partial = 0;            // left by a writer that was killed: removed
    int64_t foreign = 0;            // of another fingerprint; in `pages` before all others
  };
  /// Lists the folder without opening a file. Files with other names are left alone. Logs a line now and
  /// then if it takes long.
  Scan scan();

  /// Seals the buffer and publishes it: a temporary file, its data to the device, rename. 0 or errno.
  virtual int write(const PageHash& hash, PageFileBuffer& buffer);
  /// Reads and verifies. `failed`: the device gave an error.
  virtual PageRead read(const PageHash& hash, PageFileBuffer& buffer);
  void remove(const StoredPage& page);
  /// Makes renames durable. What a power cut takes back before is a page less, nothing else.
  void sync();

  /// Remembers the order of use for the next scan(), which takes the note away.
  void save_order(const std::vector<PageHash>& least_recent_first);

  [[nodiscard]] const PageFileFormat& format() const { return format_; }
  [[nodiscard]] uint64_t fingerprint() const { return fingerprint_; }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }

 private:
  [[nodiscard]] int open_file(const char* name, int flags);
  int write_partial(const char* partial, PageFileBuffer& buffer);
  std::vector<PageHash> take_order();

  std::filesystem::path folder_;
  PageFileFormat format_;
  uint64_t fingerprint_ = 0;
  int directory_ = -1, lock_ = -1;
  std::atomic<bool> direct_{true};  // O_DIRECT, as long as the file system takes it
  std::atomic<uint64_t> partials_{0};
};

}  // namespace glint
