// The loops behind limits.h, one file per instruction set. As with the kernels, these files emit nothing
// shared.
#pragma once

#include <cstdint>

namespace glint::bench {

struct LimitLoops {
  /// Loads every byte of [data, data + bytes), bytes a multiple of 512, and returns something that depends on
  /// them.
  uint64_t (*read)(const void* data, int64_t bytes) = nullptr;
  /// Runs `rounds` rounds of multiply-adds and returns the operations done; `sink` keeps the compiler honest.
  int64_t (*fma)(int64_t rounds, float* sink) = nullptr;
  int64_t (*bf16_dot)(int64_t rounds, float* sink) = nullptr;  // null: the set has none
};

LimitLoops portable_limit_loops();
#ifdef GLINT_X86_64
LimitLoops avx2_limit_loops();
LimitLoops avx512_limit_loops();
LimitLoops avx512_bf16_limit_loops();
#endif

}  // namespace glint::bench
