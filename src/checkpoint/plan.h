// The tensors that a checkpoint of a given config must hold, known from the config alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "tensor/safetensors.h"

namespace glint {

/// What a tensor of the BF16 checkpoint is, as far as its stored form depends on it.
enum class TensorRole {
  vector_bf16,    // norms and the indexer's k_norm bias: always BF16
  vector_f32,     // the router's e_score_correction_bias: always F32
  embedding,      // looked up by row, BF16 in every form
  matrix,         // lm_head, router, indexer.weights_proj, eh_proj: BF16 in the published forms
  projection,     // FP8 in the FP8 form, BF16 in the others
  routed_expert,  // FP8 in the FP8 form, NVFP4 in the NVFP4 form
};

/// One tensor of the BF16 checkpoint.
struct ModelTensor {
  std::string name;  // "model.layers.0.self_attn.q_a_proj.weight"
  Shape shape;       // [out, in] or [n]
  TensorRole role = TensorRole::matrix;
  int64_t layer = -1;  // -1: outside the layers
};

/// Every tensor of the BF16 checkpoint in file order, the MTP layer included (names and shapes: the
/// architecture's table of tensors).
std::vector<ModelTensor> model_tensors(const ModelConfig& config);

/// The published forms. NVFP4 means ModelOpt's, with BF16 everywhere but in the routed experts of the decoder
/// layers.
enum class CheckpointFormat { bf16, fp8, nvfp4 };

/// "bf16", "fp8", "nvfp4".
std::string_view format_name(CheckpointFormat format);
/// The inverse; throws bad_input naming the choices.
CheckpointFormat parse_format(std::string_view name);

/// The stored tensors that `tensor` becomes, in file order. Throws bad_input if the format cannot hold the
/// shape (NVFP4 needs a multiple of 16 columns).
std::vector<TensorSpec> stored_tensors(const ModelTensor& tensor, const ModelConfig& config,
                                       CheckpointFormat format);

/// True if `format` stores this tensor in FP8 blocks, or as NVFP4.
bool is_stored_fp8(const ModelTensor& tensor, CheckpointFormat format);
bool is_stored_nvfp4(const ModelTensor& tensor, const ModelConfig& config, CheckpointFormat format);

/// [ceil(out / 128), ceil(in / 128)] of an [out, in] matrix.
Shape fp8_scale_shape(const Shape& matrix);

/// How many tensors and bytes of each dtype.
struct TensorCounts {
  struct Row {
    int64_t tensors = 0;
    int64_t bytes = 0;
  };
  std::map<Dtype, Row> by_dtype;

  void add(Dtype dtype, int64_t bytes);
  [[nodiscard]] Row total() const;
};

/// Counts of the whole checkpoint in `format`.
TensorCounts count_tensors(const ModelConfig& config, CheckpointFormat format);

}  // namespace glint
