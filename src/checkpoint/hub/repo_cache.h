// One model in a cache of huggingface_hub's layout, so that one cache serves both:
//
//   models--ORG--NAME/refs/main                 the commit that "main" was when it was last fetched
//   models--ORG--NAME/snapshots/COMMIT/FILE     a relative link to ../../blobs/SUM
//   models--ORG--NAME/blobs/SUM                 a whole, checked file; SUM is its SHA-256 (LFS) or git's
//   SHA-1 models--ORG--NAME/blobs/SUM.incomplete      what a download that was cut off has brought so far
//   .locks/models--ORG--NAME/SUM.lock           held with flock() by who downloads SUM
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace glint::hub {

class RepoCache {
 public:
  /// `repo` is a checked id, "ORG/NAME"; `root` the cache's folder. Nothing is made yet.
  RepoCache(std::filesystem::path root, const std::string& repo);

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path snapshot(const std::string& commit) const;
  [[nodiscard]] std::filesystem::path blob(const std::string& sum) const;
  [[nodiscard]] std::filesystem::path partial(const std::string& sum) const;
  [[nodiscard]] std::filesystem::path lock(const std::string& sum) const;

  /// The commit that `revision` (a branch, a tag, or a whole commit) stands for here, if it is known.
  [[nodiscard]] std::optional<std::string> commit_of(const std::string& revision) const;

  /// Makes the folders that a download writes to, and the tag that keeps backups away. Throws io.
  void create() const;
  /// Remembers what `revision` stands for; nothing to do for a commit. Throws io.
  void write_ref(const std::string& revision, const std::string& commit) const;
  /// Lets FILE of the snapshot point to the blob `sum`, in one step. Throws io.
  void link(const std::string& commit, const std::string& file, const std::string& sum) const;

 private:
  std::filesystem::path root_;
  std::string name_;
  std::filesystem::path folder_;
};

/// 40 lower-case hexadecimal digits.
bool is_commit(const std::string& text);

/// Throws bad_input for what is no name of a branch, tag or commit ("..", a leading '/', control characters).
void check_revision(const std::string& revision);

/// An exclusive flock() on a file, as Python's filelock takes it. Lock files stay where they are.
class FileLock {
 public:
  /// std::nullopt if another process, or another lock of this one, has it. Throws io.
  static std::optional<FileLock> try_lock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace glint::hub
