#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "tensor/safetensors.h"

namespace glint {

namespace {

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* verb) {
  const int code = errno;
  fail(code == ENOENT ? ErrorKind::not_found : ErrorKind::io, path.string(), ": cannot ", verb, ": ",
       std::strerror(code));
}

/// What a reader would refuse, before anything is written.
void check_writable(const std::vector<TensorSpec>& tensors, size_t header_bytes, const std::string& path) {
  std::unordered_set<std::string_view> names;
  for (const TensorSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second || tensor.name == "__metadata__") {
      fail(ErrorKind::bad_input, path, ": tensor ", json_quoted(tensor.name), " cannot be written twice");
    }
  }
  if (static_cast<int64_t>(header_bytes) > kSafetensorsHeaderBytesMax) {
    fail(ErrorKind::bad_input, path, ": ", tensors.size(), " tensors need a header of ", header_bytes,
         " bytes, at most ", kSafetensorsHeaderBytesMax, " are allowed: use more shards");
  }
}

}  // namespace

std::string safetensors_head(const std::vector<TensorSpec>& tensors,
                             const std::map<std::string, std::string>& metadata, size_t alignment) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) text += cat(json_quoted(key), ":", json_quoted(value), ",");
    text.back() = '}';
  }
  int64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    if (text.size() > 1) text += ',';
    text += cat(json_quoted(tensor.name), R"(:{"dtype":")", dtype_name(tensor.dtype), R"(","shape":[)");
    for (size_t i = 0; i < tensor.shape.size(); ++i) text += cat(i == 0 ? "" : ",", tensor.shape[i]);
    text += cat(R"(],"data_offsets":[)", offset, ",", offset + tensor.bytes(), "]}");
    offset += tensor.bytes();
  }
  text += '}';
  text.append((alignment - (8 + text.size()) % alignment) % alignment, ' ');
  std::string head(8, '\0');
  for (size_t i = 0; i < 8; ++i) head[i] = static_cast<char>((text.size() >> (8 * i)) & 0xFFU);
  return head + text;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, const std::vector<TensorSpec>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(std::move(path)), partial_(path_.string() + ".partial." + std::to_string(::getpid())) {
  const std::string head = safetensors_head(tensors, metadata);
  check_writable(tensors, head.size() - 8, path_.string());
  auto offset = static_cast<int64_t>(head.size());
  for (const TensorSpec& tensor : tensors) {
    begins_.push_back(offset);
    offset += tensor.bytes();
  }
  begins_.push_back(offset);

  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_with_errno(partial_, "create");
  missing_bytes_ = offset;
  try {
    write_at(0, std::as_bytes(std::span(head)));
  } catch (...) {
    discard();
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  discard();
}

void SafetensorsWriter::discard() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
  descriptor_ = -1;
}

void SafetensorsWriter::write_at(int64_t place, std::span<const std::byte> bytes) {
  missing_bytes_ -= static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(descriptor_, bytes.data(), bytes.size(), place);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with_errno(path_, "write");
    bytes = bytes.subspan(static_cast<size_t>(done));
    place += done;
  }
}

void SafetensorsWriter::write(size_t tensor, int64_t offset, std::span<const std::byte> bytes) {
  GLINT_CHECK(tensor + 1 < begins_.size());
  GLINT_CHECK(offset >= 0 &&
              offset + static_cast<int64_t>(bytes.size()) <= begins_[tensor + 1] - begins_[tensor]);
  write_at(begins_[tensor] + offset, bytes);
}

void SafetensorsWriter::finish() {
  GLINT_CHECK(missing_bytes_ == 0);
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0 || ::rename(partial_.c_str(), path_.c_str()) != 0) {
    const int code = errno;
    ::unlink(partial_.c_str());
    errno = code;
    fail_with_errno(path_, "finish");
  }
}

}  // namespace glint
