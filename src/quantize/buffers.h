// Large aligned buffers that are used again, because fresh memory costs a page fault every 4 KB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace glint::quantize {

class BufferPool {
  struct Store;

 public:
  /// Page-aligned bytes that go back to the pool with their last owner.
  class Buffer {
   public:
    Buffer() = default;
    [[nodiscard]] std::byte* data() const { return memory_.get(); }
    [[nodiscard]] int64_t size() const { return size_; }
    [[nodiscard]] explicit operator bool() const { return memory_ != nullptr; }

   private:
    friend class BufferPool;
    std::shared_ptr<std::byte> memory_;
    int64_t size_ = 0;
  };

  /// What a buffer of `bytes` really takes.
  static int64_t rounded(int64_t bytes);
  /// Idle buffers together take at most this when a new size is needed.
  static constexpr int64_t kIdleBytes = int64_t{64} << 20;

  BufferPool();
  /// At least `bytes`. Throws io if the system has no memory.
  Buffer take(int64_t bytes);
  /// The most that all buffers together ever took.
  [[nodiscard]] int64_t peak_bytes() const;

 private:
  std::shared_ptr<Store> store_;
};

using Buffer = BufferPool::Buffer;

}  // namespace glint::quantize
