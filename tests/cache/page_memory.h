// Pages in plain memory whose contents tell which hash they stand for.
#pragma once

#include <cstring>
#include <mutex>
#include <random>
#include <vector>

#include "cache/page_tier.h"

namespace glint::testing {

inline PageHash hash_of(int64_t value) {
  return chain_next(chain_root("test", ""),
                    std::vector<int32_t>{static_cast<int32_t>(value), static_cast<int32_t>(value >> 32)});
}

class TestMemory final : public PageMemory {
 public:
  TestMemory(int64_t pages, int64_t page_bytes) : page_bytes_(page_bytes) {
    pages_.assign(static_cast<size_t>(pages), std::vector<std::byte>(static_cast<size_t>(page_bytes)));
  }
  [[nodiscard]] int64_t page_bytes() const override { return page_bytes_; }
  void copy_out(int32_t page, std::byte* out) const override {
    std::memcpy(out, pages_[static_cast<size_t>(page)].data(), static_cast<size_t>(page_bytes_));
  }
  void copy_in(int32_t page, const std::byte* bytes) override {
    std::memcpy(pages_[static_cast<size_t>(page)].data(), bytes, static_cast<size_t>(page_bytes_));
  }

  static std::vector<std::byte> contents(int64_t value, int64_t bytes) {
    std::mt19937 random(static_cast<uint32_t>(value));
    std::vector<std::byte> made(static_cast<size_t>(bytes));
    for (std::byte& byte : made) byte = static_cast<std::byte>(random());
    return made;
  }
  void fill(int32_t page, int64_t value) { pages_[static_cast<size_t>(page)] = contents(value, page_bytes_); }
  void clear(int32_t page) {
    pages_[static_cast<size_t>(page)].assign(static_cast<size_t>(page_bytes_), std::byte{0});
  }
  [[nodiscard]] bool holds(int32_t page, int64_t value) const {
    return pages_[static_cast<size_t>(page)] == contents(value, page_bytes_);
  }

 private:
  int64_t page_bytes_;
  std::vector<std::vector<std::byte>> pages_;
};

}  // namespace glint::testing
