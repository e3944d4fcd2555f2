// From the flags to the request of a memory plan, shared by `glint serve` and `glint plan`.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/quantization_config.h"
#include "engine/device_memory.h"
#include "engine/memory_plan.h"
#include "flags/serve_flags.h"

namespace glint {

/// What the flags ask of `device`. `options`: of the engine, without lengths and memory. Adds a line to
/// `notes` for what was decided. Throws bad_input or unsupported, one line that names the flag.
PlanRequest plan_request(const ServeFlags& flags, const ModelConfig& config, const DeclaredForm& form,
                         const DeviceMemory& device, EngineOptions options, std::vector<std::string>& notes);

}  // namespace glint
