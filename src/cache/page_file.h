// A page as a file: 4096 bytes of header, then the page, padded with zeros to a multiple of 4096, so that it
// can be read and written past the page cache.
//
// Header, little-endian: "GLNTPAGE", uint32 version, uint32 zero, uint64 page_bytes, 32 bytes fingerprint, 32
// bytes page hash, 16 bytes XXH3-128 of everything behind the header, zeros up to byte 4088, 8 bytes XXH3-64
// of the header before them. So every byte of the file is covered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cache/page_hash.h"

namespace glint {

/// What all pages of one cache have in common.
struct PageFileFormat {
  int64_t page_bytes = 0;
  PageHash fingerprint;  // of everything that decides a page's bytes besides its tokens

  [[nodiscard]] int64_t file_bytes() const;
};

enum class PageCheck { good, damaged, foreign };

/// Room for one file, aligned for direct I/O.
class PageFileBuffer {
 public:
  explicit PageFileBuffer(const PageFileFormat& format);

  /// The page's bytes.
  [[nodiscard]] std::byte* page() { return memory_.get() + kHeaderBytes; }
  [[nodiscard]] std::span<std::byte> file() { return {memory_.get(), static_cast<size_t>(bytes_)}; }

  /// Writes the header for the page that stands in the buffer.
  void seal(const PageHash& hash);
  /// What a buffer is that was read as the page `hash`: foreign if header and checksum are whole but of
  /// another version, size, fingerprint or hash.
  [[nodiscard]] PageCheck check(const PageHash& hash) const;

  static constexpr int64_t kHeaderBytes = 4096;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  PageFileFormat format_;
  int64_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

/// The hash of an identity under this file format's version, as PageFileFormat::fingerprint.
PageHash page_file_fingerprint(std::string_view identity);

}  // namespace glint
