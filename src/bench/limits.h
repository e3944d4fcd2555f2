// What this machine can do, measured in this process: the bars that the kernels and the model are held
// against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu_features.h"
#include "base/threads.h"

namespace glint::bench {

/// Bytes per second of plain loads over `bytes`, once through, every thread of the pool on its own contiguous
/// part. To see memory and not a cache, pass several times the last-level cache.
double read_rate(ThreadPool& pool, Isa isa, std::span<const std::byte> bytes);

/// Float32 operations per second (a fused multiply-add is two) of independent multiply-adds in registers, all
/// threads.
double fma_rate(ThreadPool& pool, Isa isa);

/// The same of BF16 dot products (vdpbf16ps: two multiply-adds a lane); 0 for a set without them.
double bf16_dot_rate(ThreadPool& pool, Isa isa);

}  // namespace glint::bench
