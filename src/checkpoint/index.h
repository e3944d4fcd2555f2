// model.safetensors.index.json: which shard holds which tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace glint {

struct CheckpointIndex {
  std::vector<std::string> files;                         // in order of first mention
  std::vector<std::pair<std::string, uint32_t>> tensors;  // sorted by name; the number is a place in `files`
};

/// Reads the file's text; `what` names it in errors. Throws bad_input on malformed JSON, a missing or
/// repeated weight_map, a tensor that stands twice and a shard name that is not a plain "*.safetensors" name
/// in the same folder. Other keys (metadata) are ignored. Streams: the published NVFP4 index has 232,385
/// entries.
CheckpointIndex parse_checkpoint_index(std::string_view text, std::string_view what);

/// The text of an index: metadata.total_size and the weight_map sorted by name, indented by two as Python's
/// json.dumps(indent=2) does, with a newline at the end. `tensors` pairs tensor names with shard names.
std::string checkpoint_index_text(std::vector<std::pair<std::string, std::string>> tensors,
                                  int64_t total_bytes);

}  // namespace glint
