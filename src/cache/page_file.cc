#include "cache/page_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"

namespace glint {

namespace {

constexpr int64_t kBlock = 4096;
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  uint64_t page_bytes;
  uint8_t fingerprint[32];
  uint8_t hash[32];
  uint8_t checksum[16];
  uint8_t padding[PageFileBuffer::kHeaderBytes - 112];
  uint64_t header_checksum;
};
static_assert(sizeof(Header) == PageFileBuffer::kHeaderBytes);

XXH128_canonical_t checksum_of(const std::byte* data, int64_t bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, static_cast<size_t>(bytes)));
  return canonical;
}

Header header_of(const PageFileFormat& format, const PageHash& hash, const XXH128_canonical_t& checksum) {
  Header header{};
  std::memcpy(header.magic, "GLNTPAGE", sizeof header.magic);
  header.version = kVersion;
  header.page_bytes = static_cast<uint64_t>(format.page_bytes);
  std::memcpy(header.fingerprint, format.fingerprint.bytes.data(), sizeof header.fingerprint);
  std::memcpy(header.hash, hash.bytes.data(), sizeof header.hash);
  std::memcpy(header.checksum, checksum.digest, sizeof header.checksum);
  header.header_checksum = XXH3_64bits(&header, offsetof(Header, header_checksum));
  return header;
}

}  // namespace

int64_t PageFileFormat::file_bytes() const {
  return PageFileBuffer::kHeaderBytes + (page_bytes + kBlock - 1) / kBlock * kBlock;
}

void PageFileBuffer::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

PageFileBuffer::PageFileBuffer(const PageFileFormat& format)
    : format_(format),
      bytes_(format.file_bytes()),
      memory_(static_cast<std::byte*>(std::aligned_alloc(kBlock, static_cast<size_t>(bytes_)))) {
  if (memory_ == nullptr) throw std::bad_alloc();
  std::memset(memory_.get(), 0, static_cast<size_t>(bytes_));
}

void PageFileBuffer::seal(const PageHash& hash) {
  // A file that was read into the buffer before may have left something behind the page.
  std::memset(page() + format_.page_bytes, 0,
              static_cast<size_t>(bytes_ - kHeaderBytes - format_.page_bytes));
  const Header header = header_of(format_, hash, checksum_of(page(), bytes_ - kHeaderBytes));
  std::memcpy(memory_.get(), &header, sizeof header);
}

PageCheck PageFileBuffer::check(const PageHash& hash) const {
  Header found;
  std::memcpy(&found, memory_.get(), sizeof found);
  if (found.header_checksum != XXH3_64bits(&found, offsetof(Header, header_checksum))) {
    return PageCheck::damaged;
  }
  const XXH128_canonical_t checksum = checksum_of(memory_.get() + kHeaderBytes, bytes_ - kHeaderBytes);
  if (std::memcmp(found.checksum, checksum.digest, sizeof found.checksum) != 0) return PageCheck::damaged;
  const Header expected = header_of(format_, hash, checksum);
  return std::memcmp(&found, &expected, sizeof found) == 0 ? PageCheck::good : PageCheck::foreign;
}

PageHash page_file_fingerprint(std::string_view identity) {
  return chain_root(cat("page file ", kVersion), identity);
}

}  // namespace glint
