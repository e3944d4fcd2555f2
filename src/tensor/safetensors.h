// safetensors files: 8 bytes little-endian header length N, N bytes of JSON, then the data area without
// holes. Offsets are relative to the data area. A file may come from anywhere, so reading checks everything.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace glint {

using Shape = std::vector<int64_t>;

/// "[48, 64]"; "[]" for a scalar.
std::string shape_text(const Shape& shape);

/// Elements of a shape. Throws bad_input on a negative dimension or a product above 2^62.
int64_t element_count(const Shape& shape);

/// The text in double quotes with everything but printable ASCII escaped, exactly as Python's json.dumps
/// writes it: names from files stay on one line in errors. Throws bad_input on invalid UTF-8.
std::string json_quoted(std::string_view text);

struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;

  /// Bytes of the tensor; throws as element_count.
  [[nodiscard]] int64_t bytes() const;
};

struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
  int64_t begin = 0;  // bytes from the start of the data area
  int64_t end = 0;

  [[nodiscard]] int64_t bytes() const { return end - begin; }
};

/// What a header says, checked against the file's size.
class SafetensorsTable {
 public:
  /// In the order of the data area.
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Bytes before the data area: 8 + N.
  [[nodiscard]] int64_t data_begin() const { return data_begin_; }
  /// nullptr if there is no such tensor. Logarithmic.
  [[nodiscard]] const TensorEntry* find(std::string_view name) const;

 private:
  friend SafetensorsTable parse_safetensors(std::string_view, int64_t, std::string_view);
  std::vector<TensorEntry> tensors_;
  std::vector<uint32_t> by_name_;
  std::map<std::string, std::string> metadata_;
  int64_t data_begin_ = 0;
};

/// Larger headers are refused, as the reference implementation does.
inline constexpr int64_t kSafetensorsHeaderBytesMax = 100'000'000;

/// Reads the table from the first bytes of a file: `head` must hold at least min(file_bytes, 8 + N) bytes.
/// `what` (the file's name) starts every error. Throws bad_input on: header length over its limit or over the
/// file, a header that does not start with '{', malformed JSON, duplicate names, unknown dtypes or fields,
/// metadata that is not a string, shapes that overflow, offsets out of range, data_offsets that do not fit
/// dtype and shape, holes, overlap, a truncated file and bytes after the last tensor.
SafetensorsTable parse_safetensors(std::string_view head, int64_t file_bytes, std::string_view what);

/// A file mapped into memory, read-only. Opening reads the header only.
class SafetensorsFile {
 public:
  /// Throws not_found or io from the system, bad_input as parse_safetensors does.
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const SafetensorsTable& table() const { return table_; }
  [[nodiscard]] int64_t file_bytes() const { return file_bytes_; }
  /// The whole file as it is mapped.
  [[nodiscard]] std::span<const std::byte> mapping() const;
  /// The bytes of one tensor of table(), at any alignment; they live as long as this object.
  [[nodiscard]] std::span<const std::byte> data(const TensorEntry& entry) const;
  /// The tensor of that name. Throws bad_input naming the file and the tensor if it is missing.
  [[nodiscard]] const TensorEntry& at(std::string_view name) const;

 private:
  std::filesystem::path path_;
  SafetensorsTable table_;
  int64_t file_bytes_ = 0;
  void* mapping_ = nullptr;
};

/// The first bytes of a file with these tensors in this order: length, then JSON as Python's
/// json.dumps(header, separators=(",", ":")) writes it, padded with spaces so that the data area starts at a
/// multiple of `alignment`.
std::string safetensors_head(const std::vector<TensorSpec>& tensors,
                             const std::map<std::string, std::string>& metadata, size_t alignment = 8);

/// Writes a file whose tensors are known beforehand, in the order given: the bytes are those of Python's
/// json.dumps(header, separators=(",", ":")) padded with spaces to a multiple of 8, then the tensors. The
/// file appears under its name when finish() is called (a temporary name before that, removed by the
/// destructor).
class SafetensorsWriter {
 public:
  /// Writes the header. Throws io from the system; bad_input on duplicate names.
  SafetensorsWriter(std::filesystem::path path, const std::vector<TensorSpec>& tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Writes `bytes` at `offset` bytes into the tensor with that number. Several threads may write at once, to
  /// disjoint places. Throws io.
  void write(size_t tensor, int64_t offset, std::span<const std::byte> bytes);
  template <class T>
  void write(size_t tensor, int64_t offset, std::span<const T> values) {
    write(tensor, offset, std::as_bytes(values));
  }

  /// Gives the file its name. Every byte must have been written (GLINT_CHECK on their number).
  void finish();

 private:
  void discard();
  void write_at(int64_t place, std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::vector<int64_t> begins_;  // file offset of each tensor, and the file's end
  std::atomic<int64_t> missing_bytes_{0};
  int descriptor_ = -1;
};

}  // namespace glint
