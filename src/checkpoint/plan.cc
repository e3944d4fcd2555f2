#include "checkpoint/plan.h"

#include "base/error.h"

namespace glint {

namespace {

// About twelve times the published model's 59,585: a config cannot make the plan itself eat the memory.
constexpr size_t kTensorsMax = 750'000;

/// Collects tensors under a growing name prefix.
class Planner {
 public:
  explicit Planner(const ModelConfig& config) : c_(config) {}

  std::vector<ModelTensor> plan() {
    add("model.embed_tokens.weight", {c_.vocab_size, c_.hidden_size}, TensorRole::embedding);
    for (layer_ = 0; layer_ < c_.layers_with_mtp(); ++layer_) add_layer();
    layer_ = -1;
    add("model.norm.weight", {c_.hidden_size}, TensorRole::vector_bf16);
    add("lm_head.weight", {c_.vocab_size, c_.hidden_size}, TensorRole::matrix);
    return std::move(tensors_);
  }

 private:
  void add(std::string name, Shape shape, TensorRole role) {
    if (tensors_.size() == kTensorsMax) {
      fail(ErrorKind::unsupported, "the config describes more than ", kTensorsMax,
           " tensors: num_hidden_layers = ", c_.num_hidden_layers,
           " with n_routed_experts = ", c_.n_routed_experts);
    }
    tensors_.push_back({std::move(name), std::move(shape), role, layer_});
  }

  void add_vector(const std::string& name, int64_t size) { add(name, {size}, TensorRole::vector_bf16); }

  void add_projection(const std::string& module, int64_t out, int64_t in) {
    add(module + ".weight", {out, in}, TensorRole::projection);
  }

  void add_layer() {
    const std::string prefix = cat("model.layers.", layer_, ".");
    add_vector(prefix + "input_layernorm.weight", c_.hidden_size);
    add_vector(prefix + "post_attention_layernorm.weight", c_.hidden_size);
    add_attention(prefix + "self_attn.");
    if (c_.has_indexer(layer_)) add_indexer(prefix + "self_attn.indexer.");
    if (c_.is_sparse(layer_)) {
      add_experts(prefix + "mlp.");
    } else {
      add_mlp(prefix + "mlp.", c_.intermediate_size, TensorRole::projection);
    }
    if (layer_ >= c_.num_hidden_layers) add_mtp(prefix);
  }

  void add_attention(const std::string& prefix) {
    const int64_t heads = c_.num_attention_heads;
    add_projection(prefix + "q_a_proj", c_.q_lora_rank, c_.hidden_size);
    add_vector(prefix + "q_a_layernorm.weight", c_.q_lora_rank);
    add_projection(prefix + "q_b_proj", heads * c_.qk_head_dim(), c_.q_lora_rank);
    add_projection(prefix + "kv_a_proj_with_mqa", c_.kv_lora_rank + c_.qk_rope_head_dim, c_.hidden_size);
    add_vector(prefix + "kv_a_layernorm.weight", c_.kv_lora_rank);
    add_projection(prefix + "kv_b_proj", heads * (c_.qk_nope_head_dim + c_.v_head_dim), c_.kv_lora_rank);
    add_projection(prefix + "o_proj", c_.hidden_size, heads * c_.v_head_dim);
  }

  void add_indexer(const std::string& prefix) {
    add_projection(prefix + "wq_b", c_.index_n_heads * c_.index_head_dim, c_.q_lora_rank);
    add_projection(prefix + "wk", c_.index_head_dim, c_.hidden_size);
    add_vector(prefix + "k_norm.weight", c_.index_head_dim);
    add_vector(prefix + "k_norm.bias", c_.index_head_dim);
    add(prefix + "weights_proj.weight", {c_.index_n_heads, c_.hidden_size}, TensorRole::matrix);
  }

  void add_mlp(const std::string& prefix, int64_t width, TensorRole role) {
    add(prefix + "gate_proj.weight", {width, c_.hidden_size}, role);
    add(prefix + "up_proj.weight", {width, c_.hidden_size}, role);
    add(prefix + "down_proj.weight", {c_.hidden_size, width}, role);
  }

  void add_experts(const std::string& prefix) {
    add(prefix + "gate.weight", {c_.n_routed_experts, c_.hidden_size}, TensorRole::matrix);
    add(prefix + "gate.e_score_correction_bias", {c_.n_routed_experts}, TensorRole::vector_f32);
    for (int64_t expert = 0; expert < c_.n_routed_experts; ++expert) {
      add_mlp(cat(prefix, "experts.", expert, "."), c_.moe_intermediate_size, TensorRole::routed_expert);
    }
    if (c_.n_shared_experts == 0) return;
    add_mlp(prefix + "shared_experts.", c_.moe_intermediate_size * c_.n_shared_experts,
            TensorRole::projection);
  }

  void add_mtp(const std::string& prefix) {
    add_vector(prefix + "enorm.weight", c_.hidden_size);
    add_vector(prefix + "hnorm.weight", c_.hidden_size);
    add(prefix + "eh_proj.weight", {c_.hidden_size, 2 * c_.hidden_size}, TensorRole::matrix);
    add_vector(prefix + "shared_head.norm.weight", c_.hidden_size);
  }

  const ModelConfig& c_;
  int64_t layer_ = -1;
  std::vector<ModelTensor> tensors_;
};

}  // namespace

std::vector<ModelTensor> model_tensors(const ModelConfig& config) {
  return Planner(config).plan();
}

std::string_view format_name(CheckpointFormat format) {
  switch (format) {
    case CheckpointFormat::bf16:
      return "bf16";
    case CheckpointFormat::fp8:
      return "fp8";
    case CheckpointFormat::nvfp4:
      return "nvfp4";
  }
  return "?";
}

CheckpointFormat parse_format(std::string_view name) {
  for (const auto format : {CheckpointFormat::bf16, CheckpointFormat::fp8, CheckpointFormat::nvfp4}) {
    if (name == format_name(format)) return format;
  }
  fail(ErrorKind::bad_input, "format ", json_quoted(name), " is unknown, expected bf16, fp8 or nvfp4");
}

bool is_stored_fp8(const ModelTensor& tensor, CheckpointFormat format) {
  return format == CheckpointFormat::fp8 &&
         (tensor.role == TensorRole::projection || tensor.role == TensorRole::routed_expert);
}

bool is_stored_nvfp4(const ModelTensor& tensor, const ModelConfig& config, CheckpointFormat format) {
  return format == CheckpointFormat::nvfp4 && tensor.role == TensorRole::routed_expert &&
         tensor.layer < config.num_hidden_layers;
}

Shape fp8_scale_shape(const Shape& matrix) {
  return {(matrix[0] + 127) / 128, (matrix[1] + 127) / 128};
}

std::vector<TensorSpec> stored_tensors(const ModelTensor& tensor, const ModelConfig& config,
                                       CheckpointFormat format) {
  const Shape& shape = tensor.shape;
  if (is_stored_fp8(tensor, format)) {
    return {{tensor.name, Dtype::f8_e4m3, shape},
            {tensor.name + "_scale_inv", Dtype::f32, fp8_scale_shape(shape)}};
  }
  if (is_stored_nvfp4(tensor, config, format)) {
    if (shape[1] % 16 != 0) {
      fail(
          ErrorKind::bad_input, tensor.name, ": ", shape_text(shape),
          " cannot be NVFP4, which needs columns (hidden_size and moe_intermediate_size) in multiples of 16");
    }
    const std::string module = tensor.name.substr(0, tensor.name.size() - std::string_view("weight").size());
    return {{tensor.name, Dtype::u8, {shape[0], shape[1] / 2}},
            {module + "weight_scale", Dtype::f8_e4m3, {shape[0], shape[1] / 16}},
            {module + "weight_scale_2", Dtype::f32, {}},
            {module + "input_scale", Dtype::f32, {}}};
  }
  return {{tensor.name, tensor.role == TensorRole::vector_f32 ? Dtype::f32 : Dtype::bf16, shape}};
}

void TensorCounts::add(Dtype dtype, int64_t bytes) {
  Row& row = by_dtype[dtype];
  ++row.tensors;
  if (__builtin_add_overflow(row.bytes, bytes, &row.bytes)) {
    fail(ErrorKind::unsupported, "the config describes more than 2^63 bytes");
  }
}

TensorCounts::Row TensorCounts::total() const {
  Row total;
  for (const auto& [dtype, row] : by_dtype) {
    total.tensors += row.tensors;
    if (__builtin_add_overflow(total.bytes, row.bytes, &total.bytes)) {
      fail(ErrorKind::unsupported, "the config describes more than 2^63 bytes");
    }
  }
  return total;
}

TensorCounts count_tensors(const ModelConfig& config, CheckpointFormat format) {
  TensorCounts counts;
  for (const ModelTensor& tensor : model_tensors(config)) {
    for (const TensorSpec& stored : stored_tensors(tensor, config, format))
      counts.add(stored.dtype, stored.bytes());
  }
  return counts;
}

}  // namespace glint
