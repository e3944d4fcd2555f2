// Memory for the temporaries of a step: one slab, taken from the front, given back in reverse.
//
// The same code that runs a step also plans it: a measuring arena hands out no memory, only counts, and
// operations on it return before they compute. So the planned size is the used size by construction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace glint::ops {

class Arena {
 public:
  /// A measuring arena.
  Arena() = default;
  /// Hands out [slab, slab + bytes); the memory is the backend's and must be 256-byte aligned.
  Arena(std::byte* slab, int64_t bytes) : slab_(slab), bytes_(bytes) {}

  [[nodiscard]] bool measuring() const { return slab_ == nullptr; }
  [[nodiscard]] int64_t peak_bytes() const { return peak_; }
  [[nodiscard]] int64_t used_bytes() const { return used_; }

  /// The most that was used since begin_span(), for telling what one operation takes.
  void begin_span() { span_peak_ = used_; }
  [[nodiscard]] int64_t span_peak_bytes() const { return span_peak_; }

  /// 256-byte aligned. Throws internal if the plan was too small; null while measuring.
  void* take(int64_t bytes);

  /// Gives back everything taken after its construction.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
    ~Scope() { arena_.used_ = mark_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    int64_t mark_;
  };

 private:
  std::byte* slab_ = nullptr;
  int64_t bytes_ = 0;
  int64_t used_ = 0;
  int64_t peak_ = 0;
  int64_t span_peak_ = 0;
};

}  // namespace glint::ops
