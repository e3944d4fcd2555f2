#include "checkpoint/tensor_resolver.h"

#include <charconv>

#include "base/error.h"

namespace glint {

namespace {

constexpr std::string_view kWeight = "weight";

std::string described(const TensorEntry& entry) {
  return cat(dtype_name(entry.dtype), " ", shape_text(entry.shape));
}

Weight weight_of(WeightFormat format, const ModelTensor& tensor, const StoredTensor& codes) {
  Weight weight;
  weight.format = format;
  weight.rows = tensor.shape[0];
  weight.cols = tensor.shape[1];
  weight.data = codes.data();
  return weight;
}

}  // namespace

TensorResolver::TensorResolver(const ModelConfig& config, const std::vector<SafetensorsFile>& shards,
                               std::string listing)
    : config_(config), listing_(std::move(listing)) {
  size_t count = 0;
  for (const SafetensorsFile& shard : shards) count += shard.table().tensors().size();
  slots_.reserve(count);
  for (const SafetensorsFile& shard : shards) {
    for (const TensorEntry& entry : shard.table().tensors()) {
      const auto [at, added] = slots_.try_emplace(entry.name, Slot{{&shard, &entry}, false});
      if (!added) {
        fail(ErrorKind::bad_input, shard.path().string(), ": tensor ", json_quoted(entry.name),
             " stands also in ", at->second.stored.file->path().filename().string());
      }
    }
  }
}

StoredTensor TensorResolver::find(const std::string& name) {
  const auto at = slots_.find(name);
  if (at == slots_.end()) return {};
  at->second.used = true;
  return at->second.stored;
}

StoredTensor TensorResolver::required(const std::string& name, const ModelTensor& tensor,
                                      std::string_view expected) {
  const StoredTensor stored = find(name);
  if (stored) return stored;
  std::string reason;
  if (name.find(".indexer.") != std::string::npos && tensor.layer < config_.num_hidden_layers) {
    reason = cat(": layer ", tensor.layer, " is a full layer in config.json, so it needs its own indexer");
  } else if (tensor.layer >= config_.num_hidden_layers) {
    reason = cat(": config.json has num_nextn_predict_layers = 1, so layer ", tensor.layer,
                 " must be the MTP layer");
  }
  fail(ErrorKind::bad_input, listing_, ": tensor ", name, " is missing, expected ", expected, reason);
}

void TensorResolver::check(const StoredTensor& stored, Dtype dtype, const Shape& shape) const {
  const TensorEntry& entry = *stored.entry;
  if (entry.dtype != dtype) {
    fail(ErrorKind::bad_input, stored.file->path().string(), ": tensor ", entry.name, " has dtype ",
         dtype_name(entry.dtype), ", expected ", dtype_name(dtype));
  }
  if (entry.shape != shape) {
    fail(ErrorKind::bad_input, stored.file->path().string(), ": tensor ", entry.name, " has shape ",
         shape_text(entry.shape), ", expected ", shape_text(shape));
  }
}

void TensorResolver::check_scalar(const StoredTensor& stored) const {
  // ModelOpt writes scalars without dimensions, compressed-tensors with one; either may be rewritten by
  // tools.
  check(stored, Dtype::f32, stored.entry->shape == Shape{1} ? Shape{1} : Shape{});
}

StoredTensor TensorResolver::vector(const ModelTensor& tensor) {
  const Dtype dtype = tensor.role == TensorRole::vector_f32 ? Dtype::f32 : Dtype::bf16;
  const StoredTensor stored =
      required(tensor.name, tensor, cat(dtype_name(dtype), " ", shape_text(tensor.shape)));
  check(stored, dtype, tensor.shape);
  return stored;
}

StoredMatrix TensorResolver::fp8_matrix(const StoredTensor& codes, const ModelTensor& tensor) {
  check(codes, Dtype::f8_e4m3, tensor.shape);
  const Shape shape = fp8_scale_shape(tensor.shape);
  const StoredTensor scale = required(tensor.name + "_scale_inv", tensor,
                                      cat("F32 ", shape_text(shape), " beside the F8_E4M3 weight"));
  check(scale, Dtype::f32, shape);
  StoredMatrix matrix{weight_of(WeightFormat::fp8_block, tensor, codes), {}};
  matrix.weight.scale = scale.data();
  return matrix;
}

StoredMatrix TensorResolver::nvfp4_matrix(const StoredTensor& codes, const ModelTensor& tensor,
                                          const std::string& module, bool compressed_tensors) {
  const int64_t rows = tensor.shape[0];
  const int64_t cols = tensor.shape[1];
  if (cols % 16 != 0) {
    fail(ErrorKind::bad_input, codes.file->path().string(), ": tensor ", codes.entry->name, " is NVFP4 with ",
         cols, " columns, expected a multiple of 16");
  }
  check(codes, Dtype::u8, {rows, cols / 2});
  const Shape scale_shape = {rows, cols / 16};
  const StoredTensor scale = required(module + "weight_scale", tensor,
                                      cat("F8_E4M3 ", shape_text(scale_shape), " beside the NVFP4 weight"));
  check(scale, Dtype::f8_e4m3, scale_shape);
  StoredMatrix matrix{weight_of(WeightFormat::nvfp4, tensor, codes), {}};
  matrix.weight.block_scale = static_cast<const uint8_t*>(static_cast<const void*>(scale.data()));
  matrix.weight.global_divides = compressed_tensors;
  matrix.global_scale = required(module + (compressed_tensors ? "weight_global_scale" : "weight_scale_2"),
                                 tensor, "one F32 beside the NVFP4 weight");
  check_scalar(matrix.global_scale);
  // Scales of the activations: weight-only exports leave them out.
  const StoredTensor input = find(module + (compressed_tensors ? "input_global_scale" : "input_scale"));
  if (input) check_scalar(input);
  return matrix;
}

StoredMatrix TensorResolver::matrix(const ModelTensor& tensor) {
  GLINT_CHECK(tensor.name.ends_with(kWeight) && tensor.shape.size() == 2);
  const std::string module = tensor.name.substr(0, tensor.name.size() - kWeight.size());
  const bool quantizable = tensor.role != TensorRole::embedding;
  StoredTensor codes = find(tensor.name);
  if (!codes && quantizable) {
    codes = find(tensor.name + "_packed");
    if (codes) return nvfp4_matrix(codes, tensor, module, true);
  }
  if (!codes)
    codes = required(tensor.name, tensor, cat(quantizable ? "" : "BF16 ", shape_text(tensor.shape)));
  if (quantizable && codes.entry->dtype == Dtype::f8_e4m3) return fp8_matrix(codes, tensor);
  if (quantizable && codes.entry->dtype == Dtype::u8) return nvfp4_matrix(codes, tensor, module, false);
  if (quantizable && codes.entry->dtype != Dtype::bf16) {
    fail(ErrorKind::bad_input, codes.file->path().string(), ": tensor ", tensor.name, " has dtype ",
         dtype_name(codes.entry->dtype), ", expected BF16, F8_E4M3 or U8 (NVFP4)");
  }
  check(codes, Dtype::bf16, tensor.shape);
  return {weight_of(WeightFormat::bf16, tensor, codes), {}};
}

std::string TensorResolver::why_unknown(const std::string& name) const {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return "expected only the tensors that config.json describes";
  int64_t layer = -1;
  const char* const end = name.data() + name.size();
  const auto [after, error] = std::from_chars(name.data() + kLayers.size(), end, layer);
  if (error != std::errc() || after == end || *after != '.' || layer < 0) return "expected a layer number";
  if (layer >= config_.layers_with_mtp()) {
    return cat("config.json has num_hidden_layers = ", config_.num_hidden_layers,
               " and num_nextn_predict_layers = ", config_.num_nextn_predict_layers);
  }
  if (!config_.has_indexer(layer) && name.find(".self_attn.indexer.") != std::string::npos) {
    return cat("layer ", layer, " is a shared layer in config.json, which has no indexer of its own");
  }
  if (name.find("_scale") != std::string::npos) return "no weight of a form that uses it stands beside it";
  return cat("layer ", layer, " as config.json describes it has no such tensor");
}

void TensorResolver::refuse_unknown(const std::vector<SafetensorsFile>& shards) const {
  for (const SafetensorsFile& shard : shards) {
    for (const TensorEntry& entry : shard.table().tensors()) {
      if (slots_.at(entry.name).used) continue;
      fail(ErrorKind::bad_input, shard.path().string(), ": tensor ", json_quoted(entry.name), " (",
           described(entry), ") is unknown: ", why_unknown(entry.name));
    }
  }
}

}  // namespace glint
