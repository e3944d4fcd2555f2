// What one rank of a parallel layout holds: of the tensors, and of the cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/config.h"
#include "checkpoint/plan.h"

namespace glint {

/// Ranks that share a layer, and how. Everything 1 and off: one device holds all.
struct RankLayout {
  int64_t tensor_parallel = 1;  // ranks that share each layer of a stage
  int64_t data_parallel = 1;    // replicas of a stage's ranks; they share nothing but spread experts
  bool expert_parallel =
      false;  // routed experts are spread whole over all ranks of all replicas instead of sliced
  int64_t context_parallel = 1;    // ranks that the cache is striped over (decode context parallel)
  bool stripe_index_keys = false;  // with context_parallel > 1: the index keys too, not the latent rows alone

  /// Over which routed experts are spread.
  [[nodiscard]] int64_t expert_ranks() const { return tensor_parallel * data_parallel; }
};

/// Throws bad_input, naming the flag, the number that does not divide and the sizes that do:
///  - heads, vocab_size by tensor_parallel;
///  - dense, shared and (without expert_parallel) routed expert width by it, in whole FP8 blocks of 128
///  (NVFP4:
///    of 16); kv_b's rows too (448 rows a head are 3.5 blocks: an even number of heads a rank);
///  - n_routed_experts by expert_ranks() with expert_parallel;
///  - tensor_parallel by context_parallel.
void check_layout(const RankLayout& layout, const ModelConfig& config, CheckpointFormat format);

/// How a tensor is split over the tensor-parallel ranks.
enum class TensorSplit {
  replicated,  // norms, router, indexer, q_a_proj, kv_a_proj_with_mqa, embedding
  rows,        // q_b, kv_b, gate, up, lm_head, eh_proj: each rank has some outputs
  columns,     // o_proj, down_proj: each rank has some inputs
  experts,     // expert_parallel: each rank has some experts whole
};

/// The part of the model that a tensor belongs to, as a memory plan lists them.
enum class TensorPart {
  embedding,
  lm_head,
  norms,
  attention,
  indexer,
  router,
  dense_mlp,
  shared_experts,
  routed_experts,
  mtp_head
};

/// "routed experts", ...
std::string_view part_name(TensorPart part);

TensorPart part_of(const ModelTensor& tensor);

/// The embedding is replicated: a lookup needs no exchange then, and the MTP layer looks tokens up too.
/// Shared experts that do not divide into whole blocks are replicated under expert_parallel.
TensorSplit split_of(const ModelTensor& tensor, const RankLayout& layout, CheckpointFormat format);

/// Bytes of `tensor` in `format` that the first rank holds (every rank holds as many in all); the layout must
/// have passed check_layout. With expert_parallel the first rank has the first n_routed_experts / ranks
/// experts. With `absorbed_bf16` kv_b is counted as BF16 whatever the format (a device that expands W_UK and
/// W_UV).
int64_t rank_bytes(const ModelTensor& tensor, const ModelConfig& config, CheckpointFormat format,
                   const RankLayout& layout, bool absorbed_bf16);

/// How the cache lies over `context_parallel` ranks.
enum class CacheStriping { replicated, latent, both };

/// "replicated", "latent striped", "both striped".
std::string_view striping_name(CacheStriping striping);

CacheStriping striping_of(const RankLayout& layout);

/// Bytes of one rank for `ranks` tokens (or pages) in a row, of which each takes `latent` and `index` bytes:
/// a page lies on rank (page number mod ranks). Replicated: ranks * (latent + index); latent striped: latent
/// + ranks * index; both: latent + index.
int64_t striped_bytes(int64_t latent, int64_t index, CacheStriping striping, int64_t ranks);

/// How many units of `latent` + `index` bytes fit into `budget` bytes on each of the ranks, counted in whole
/// stripes.
int64_t units_that_fit(int64_t budget, int64_t latent, int64_t index, CacheStriping striping, int64_t ranks);

}  // namespace glint
