// The CPU backend. An Activation element is a float on the compute type's grid.
#pragma once

#include <memory>

#include "base/cpu_features.h"
#include "base/threads.h"
#include "ops/ops.h"

namespace glint::ops::cpu {

/// `pool` and `arena` must outlive the result. Every call runs on the pool and returns when it is done.
std::unique_ptr<Ops> make_cpu_ops(ThreadPool& pool, Isa isa, ComputeDType dtype, Arena& arena);

}  // namespace glint::ops::cpu
