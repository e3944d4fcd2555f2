// The first half of a plan: what is in the source and what becomes of it.
#pragma once

#include "quantize/plan.h"

namespace glint::quantize {

/// Fills config, config_text, files, jobs (all but their outputs), lanes (in file order, without knowledge of
/// waiting partners) and the counts of the source.
void plan_source(const QuantizeOptions& options, Plan& plan);

/// Decides which partners wait in memory and which are read again; fills what depends on it and `workers`.
void plan_partners(const QuantizeOptions& options, Plan& plan);

/// The stored tensors that a job becomes.
std::vector<TensorSpec> output_specs(const Job& job);

}  // namespace glint::quantize
