#include "parallel/shares.h"

#include "base/error.h"

namespace glint {

namespace {

constexpr int64_t kFp8Block = 128;
constexpr int64_t kFp4Block = 16;

bool ends_with_module(std::string_view name, std::string_view module) {
  constexpr std::string_view kWeight = ".weight";
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  return name.ends_with(module);
}

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

/// Largest block that a slice of `total` must be a multiple of, for one size of the layout.
struct Divided {
  std::string_view what;
  int64_t total = 0;
  int64_t block = 1;
};

void check_divides(const Divided& divided, int64_t ranks) {
  if (divided.total % ranks == 0 && divided.total / ranks % divided.block == 0) return;
  std::string legal = "1";
  for (int64_t size = 2; size <= divided.total; ++size) {
    if (divided.total % size == 0 && divided.total / size % divided.block == 0) {
      legal += cat(", ", size);
    }
  }
  fail(ErrorKind::bad_input, "argument --tensor-parallel-size: ", ranks, ": ", divided.what, " = ",
       divided.total, " does not divide into equal slices",
       divided.block > 1 ? cat(" of whole blocks of ", divided.block) : std::string(), "; it would with ",
       legal);
}

bool shared_experts_divide(const ModelTensor& tensor, const RankLayout& layout, CheckpointFormat format) {
  const int64_t width = tensor.shape[ends_with_module(tensor.name, ".down_proj") ? 1 : 0];
  const int64_t block = format == CheckpointFormat::fp8 ? kFp8Block : 1;
  return width % (layout.tensor_parallel * block) == 0;
}

void check_heads(int64_t heads, int64_t ranks) {
  if (heads % ranks == 0) return;
  fail(ErrorKind::bad_input, "Total number of attention heads (", heads,
       ") must be divisible by tensor parallel size (", ranks, "): change --tensor-parallel-size");
}

void check_experts(const ModelConfig& config, const RankLayout& layout, CheckpointFormat format) {
  if (layout.expert_parallel) {
    if (config.n_routed_experts % layout.expert_ranks() == 0) return;
    fail(ErrorKind::bad_input, "argument --enable-expert-parallel: ", config.n_routed_experts,
         " experts do not divide over ", layout.expert_ranks(),
         " ranks; choose a --tensor-parallel-size (times --data-parallel-size) that divides them");
  }
  const int64_t block = format == CheckpointFormat::fp8     ? kFp8Block
                        : format == CheckpointFormat::nvfp4 ? kFp4Block
                                                            : 1;
  check_divides({"moe_intermediate_size", config.moe_intermediate_size, block}, layout.tensor_parallel);
}

/// N of "....experts.N....".
int64_t expert_number(std::string_view name) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t at = name.find(kExperts);
  GLINT_CHECK(at != std::string_view::npos);
  int64_t number = 0;
  for (const char digit : name.substr(at + kExperts.size())) {
    if (digit == '.') break;
    number = number * 10 + (digit - '0');
  }
  return number;
}

}  // namespace

void check_layout(const RankLayout& layout, const ModelConfig& config, CheckpointFormat format) {
  const int64_t ranks = layout.tensor_parallel;
  if (ranks < 1)
    fail(ErrorKind::bad_input, "argument --tensor-parallel-size: ", ranks, ": expected at least 1");
  if (layout.context_parallel < 1 || ranks % layout.context_parallel != 0) {
    fail(ErrorKind::bad_input, "argument --decode-context-parallel-size: ", layout.context_parallel,
         ": expected a divisor of --tensor-parallel-size ", ranks);
  }
  if (layout.data_parallel < 1) {
    fail(ErrorKind::bad_input, "argument --data-parallel-size: ", layout.data_parallel,
         ": expected at least 1");
  }
  if (ranks == 1) {
    if (layout.expert_parallel) check_experts(config, layout, format);
    return;
  }
  check_heads(config.num_attention_heads, ranks);
  const int64_t block = format == CheckpointFormat::fp8 ? kFp8Block : 1;
  const int64_t kv_b = config.num_attention_heads * (config.qk_nope_head_dim + config.v_head_dim);
  check_divides({"vocab_size", config.vocab_size, 1}, ranks);
  check_divides({"the rows of kv_b_proj", kv_b, block}, ranks);
  check_divides({"the rows of q_b_proj", config.num_attention_heads * config.qk_head_dim(), block}, ranks);
  check_divides({"intermediate_size", config.intermediate_size, block}, ranks);
  check_experts(config, layout, format);
  // With expert_parallel, shared experts that do not divide are replicated (split_of).
  if (config.n_shared_experts > 0 && !layout.expert_parallel) {
    check_divides(
        {"the width of the shared experts", config.moe_intermediate_size * config.n_shared_experts, block},
        ranks);
  }
}

std::string_view part_name(TensorPart part) {
  switch (part) {
    case TensorPart::embedding:
      return "embedding";
    case TensorPart::lm_head:
      return "lm head";
    case TensorPart::norms:
      return "norms";
    case TensorPart::attention:
      return "attention";
    case TensorPart::indexer:
      return "indexer";
    case TensorPart::router:
      return "router";
    case TensorPart::dense_mlp:
      return "dense mlp";
    case TensorPart::shared_experts:
      return "shared experts";
    case TensorPart::routed_experts:
      return "routed experts";
    case TensorPart::mtp_head:
      return "eh_proj";
  }
  return "?";
}

TensorPart part_of(const ModelTensor& tensor) {
  const std::string_view name = tensor.name;
  if (tensor.role == TensorRole::embedding) return TensorPart::embedding;
  if (tensor.role == TensorRole::routed_expert) return TensorPart::routed_experts;
  if (name == "lm_head.weight") return TensorPart::lm_head;
  if (contains(name, ".indexer.")) return TensorPart::indexer;
  if (contains(name, ".mlp.gate.")) return TensorPart::router;
  if (tensor.role == TensorRole::vector_bf16) return TensorPart::norms;
  if (contains(name, ".self_attn.")) return TensorPart::attention;
  if (contains(name, ".shared_experts.")) return TensorPart::shared_experts;
  if (contains(name, ".eh_proj")) return TensorPart::mtp_head;
  return TensorPart::dense_mlp;
}

TensorSplit split_of(const ModelTensor& tensor, const RankLayout& layout, CheckpointFormat format) {
  const std::string_view name = tensor.name;
  switch (part_of(tensor)) {
    case TensorPart::embedding:
    case TensorPart::norms:
    case TensorPart::indexer:
    case TensorPart::router:
      return TensorSplit::replicated;
    case TensorPart::lm_head:
    case TensorPart::mtp_head:
      return TensorSplit::rows;
    case TensorPart::attention:
      if (ends_with_module(name, ".o_proj")) return TensorSplit::columns;
      return ends_with_module(name, ".q_b_proj") || ends_with_module(name, ".kv_b_proj")
                 ? TensorSplit::rows
                 : TensorSplit::replicated;
    case TensorPart::routed_experts:
      if (layout.expert_parallel) return TensorSplit::experts;
      break;
    case TensorPart::shared_experts:
      if (layout.expert_parallel && !shared_experts_divide(tensor, layout, format)) {
        return TensorSplit::replicated;
      }
      break;
    case TensorPart::dense_mlp:
      break;
  }
  return ends_with_module(name, ".down_proj") ? TensorSplit::columns : TensorSplit::rows;
}

int64_t rank_bytes(const ModelTensor& tensor, const ModelConfig& config, CheckpointFormat format,
                   const RankLayout& layout, bool absorbed_bf16) {
  const TensorSplit split = split_of(tensor, layout, format);
  if (split == TensorSplit::experts &&
      expert_number(tensor.name) >= config.n_routed_experts / layout.expert_ranks()) {
    return 0;
  }
  ModelTensor slice = tensor;
  if (split == TensorSplit::rows) slice.shape[0] /= layout.tensor_parallel;
  if (split == TensorSplit::columns) slice.shape[1] /= layout.tensor_parallel;
  const bool absorbed = absorbed_bf16 && ends_with_module(tensor.name, ".kv_b_proj");
  int64_t bytes = 0;
  for (const TensorSpec& stored : stored_tensors(slice, config, absorbed ? CheckpointFormat::bf16 : format)) {
    bytes += stored.bytes();
  }
  return bytes;
}

std::string_view striping_name(CacheStriping striping) {
  switch (striping) {
    case CacheStriping::replicated:
      return "replicated";
    case CacheStriping::latent:
      return "latent striped";
    case CacheStriping::both:
      return "both striped";
  }
  return "?";
}

CacheStriping striping_of(const RankLayout& layout) {
  if (layout.context_parallel == 1) return CacheStriping::replicated;
  return layout.stripe_index_keys ? CacheStriping::both : CacheStriping::latent;
}

int64_t striped_bytes(int64_t latent, int64_t index, CacheStriping striping, int64_t ranks) {
  switch (striping) {
    case CacheStriping::replicated:
      return ranks * (latent + index);
    case CacheStriping::latent:
      return latent + ranks * index;
    case CacheStriping::both:
      return latent + index;
  }
  return 0;
}

int64_t units_that_fit(int64_t budget, int64_t latent, int64_t index, CacheStriping striping, int64_t ranks) {
  if (budget <= 0) return 0;
  if (striping == CacheStriping::replicated) return budget / (latent + index);
  return budget / striped_bytes(latent, index, striping, ranks) * ranks;
}

}  // namespace glint
