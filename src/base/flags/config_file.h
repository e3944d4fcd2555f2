// --config FILE: flags in YAML, one key a flag.
//
//   model: /models/GLM-5.3
//   served-model-name: [glm-5.3, glm]
//   enable-prefix-caching: false
//   speculative-config: {method: mtp, num_speculative_tokens: 5}
//   kv_cache_dtype: fp8
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/flags/assignment.h"

namespace glint {

/// The file's assignments, sources as "serve.yaml:3: kv_cache_dtype". Throws not_found, io, or bad_input with
/// file and line: broken YAML, an unknown key (no prefixes here: a file is written once), a key given twice,
/// a value of the wrong form.
std::vector<Assignment> read_config_file(const FlagTable& table, const std::filesystem::path& path);

}  // namespace glint
