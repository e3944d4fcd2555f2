// What the output's config.json and hf_quant_config.json say.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "quantize/plan.h"

namespace glint::quantize {

/// config.json: the source's text with quantization_config set, replaced or, for BF16, taken out.
std::string output_config_text(const Plan& plan, const QuantizeOptions& options);

/// hf_quant_config.json; empty for targets that have none.
std::string hf_quant_config_text(const Plan& plan, const QuantizeOptions& options);

/// Patterns or names of modules that stay BF16, the user's at the end.
std::vector<std::string> excluded_modules(const Plan& plan, const QuantizeOptions& options);

}  // namespace glint::quantize
