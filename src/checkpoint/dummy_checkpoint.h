// A checkpoint made from config.json alone: stand-in weights in memory, for trying sizes and speeds without
// files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "checkpoint/checkpoint.h"

namespace glint {

/// The weights that `glint make-checkpoint --seed SEED --format FORMAT` would write of `folder`/config.json,
/// bit for bit, in memory that is reserved now and filled by read_all(). Until then matrix() gives views of
/// memory that is not there yet (and of NVFP4 no global scale), for a device that makes the values itself
/// from generated(). vector() is right from the start. file_bytes() is tensor_bytes(): there is no file.
/// Throws what load_model_config throws; bad_input if the format cannot hold a shape; io if the memory cannot
/// be reserved.
std::shared_ptr<const Checkpoint> open_dummy_checkpoint(const std::filesystem::path& folder,
                                                        CheckpointFormat format, uint64_t seed = 0);

}  // namespace glint
