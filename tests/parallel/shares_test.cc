#include "parallel/shares.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace glint {
namespace {

ModelConfig published() {
  return load_model_config(std::filesystem::path(GLINT_TEST_DATA) / "glm-5.3-config.json");
}

RankLayout tensor_parallel(int64_t ranks, bool experts = false) {
  return {.tensor_parallel = ranks, .expert_parallel = experts};
}

int64_t rank_total(CheckpointFormat format, const RankLayout& layout, bool absorbed_bf16, bool with_mtp) {
  const ModelConfig config = published();
  int64_t sum = 0;
  for (const ModelTensor& tensor : model_tensors(config)) {
    if (tensor.layer < 78 || with_mtp) sum += rank_bytes(tensor, config, format, layout, absorbed_bf16);
  }
  return sum;
}

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

TEST(Shares, OneRankHoldsTheCheckpoint) {
  EXPECT_EQ(rank_total(CheckpointFormat::fp8, {}, false, true), 755'617'140'416);
  EXPECT_EQ(rank_total(CheckpointFormat::bf16, {}, false, true), 1'506'659'919'872);
  EXPECT_EQ(rank_total(CheckpointFormat::nvfp4, {}, false, true), 464'795'267'072);
}

/// E4M3 with a float32 scale for each 128x128 block.
int64_t fp8(int64_t out, int64_t in) {
  return out * in + (out + 127) / 128 * ((in + 127) / 128) * 4;
}

/// What the architecture says that one of `tp` ranks holds of a layer, written down again from its table.
int64_t layer_by_hand(int64_t layer, int64_t tp, bool absorbed_bf16) {
  const bool full = layer == 78 || layer < 3 || layer % 4 == 2;
  int64_t bytes = 2 * (2 * 6144 + 2048 + 512);                           // norms
  bytes += fp8(2048, 6144) + fp8(576, 6144);                             // q_a, kv_a: replicated
  bytes += fp8(16384 / tp, 2048) + fp8(6144, 16384 / tp);                // q_b by heads, o_proj by columns
  bytes += absorbed_bf16 ? 2 * 28672 / tp * 512 : fp8(28672 / tp, 512);  // kv_b by heads
  if (full) bytes += fp8(4096, 2048) + fp8(128, 6144) + 2 * 32 * 6144 + 2 * 2 * 128;
  if (layer < 3) return bytes + 2 * fp8(12288 / tp, 6144) + fp8(6144, 12288 / tp);
  bytes += 2 * 256 * 6144 + 4 * 256;  // router and its bias
  return bytes + 257 * (2 * fp8(2048 / tp, 6144) + fp8(6144, 2048 / tp));
}

TEST(Shares, EightRanksHoldWhatTheArchitectureSays) {
  for (const bool absorbed : {false, true}) {
    int64_t main = 2 * 154880 * 6144 + 2 * 154880 * 6144 / 8 + 2 * 6144;  // embedding whole, head split, norm
    for (int64_t layer = 0; layer < 78; ++layer) main += layer_by_hand(layer, 8, absorbed);
    const int64_t mtp = layer_by_hand(78, 8, absorbed) + 2 * 3 * 6144 + 2 * 6144 * 12288 / 8;
    EXPECT_EQ(rank_total(CheckpointFormat::fp8, tensor_parallel(8), absorbed, false), main);
    EXPECT_EQ(rank_total(CheckpointFormat::fp8, tensor_parallel(8), absorbed, true), main + mtp);
  }
  // Published: 88.18 GiB, 89.37 with MTP, with a split embedding; 97.7 GB with BF16 W_UK and W_UV, MTP and
  // the embedding whole.
  const double embedding_rest = 2.0 * 154880 * 6144 * 7 / 8;
  const auto total = [](bool absorbed, bool mtp) {
    return static_cast<double>(rank_total(CheckpointFormat::fp8, tensor_parallel(8), absorbed, mtp));
  };
  EXPECT_NEAR((total(false, false) - embedding_rest) / kGiB, 88.18, 0.005);
  EXPECT_NEAR((total(false, true) - embedding_rest) / kGiB, 89.37, 0.005);
  EXPECT_NEAR(total(true, true) / 1e9, 97.7, 0.1);
}

TEST(Shares, ExpertsWholeOrSlicedTakeTheSameBytes) {
  // 37,757,952 bytes an expert (FP8), 21,233,688 (NVFP4: three scales of 4 bytes and three input scales
  // each).
  const auto routed = [](CheckpointFormat format, const RankLayout& layout, int64_t layer) {
    const ModelConfig config = published();
    int64_t sum = 0;
    for (const ModelTensor& tensor : model_tensors(config)) {
      if (tensor.layer == layer && part_of(tensor) == TensorPart::routed_experts) {
        sum += rank_bytes(tensor, config, format, layout, true);
      }
    }
    return sum;
  };
  EXPECT_EQ(routed(CheckpointFormat::fp8, tensor_parallel(8, true), 40), 32 * int64_t{37'757'952});
  EXPECT_EQ(routed(CheckpointFormat::fp8, tensor_parallel(8, false), 40), 32 * int64_t{37'757'952});
  EXPECT_EQ(routed(CheckpointFormat::nvfp4, tensor_parallel(64, true), 40), 4 * int64_t{21'233'688});
  EXPECT_EQ(routed(CheckpointFormat::nvfp4, tensor_parallel(8, true), 78), 32 * int64_t{75'497'472})
      << "the MTP layer's experts stay BF16";
  // Replicas share the experts, and nothing else.
  const RankLayout replicas{.tensor_parallel = 2, .data_parallel = 4, .expert_parallel = true};
  EXPECT_EQ(routed(CheckpointFormat::fp8, replicas, 40), 32 * int64_t{37'757'952});
  const RankLayout apart{.tensor_parallel = 2, .data_parallel = 4};
  EXPECT_EQ(routed(CheckpointFormat::fp8, apart, 40), 128 * int64_t{37'757'952});
}

TEST(Shares, LegalSizes) {
  const ModelConfig config = published();
  for (const int64_t ranks : {1, 2, 4, 8, 16}) {
    EXPECT_NO_THROW(check_layout(tensor_parallel(ranks), config, CheckpointFormat::fp8)) << ranks;
    EXPECT_NO_THROW(check_layout(tensor_parallel(ranks), config, CheckpointFormat::nvfp4)) << ranks;
  }
  EXPECT_NO_THROW(check_layout(tensor_parallel(32, true), config, CheckpointFormat::fp8));
  EXPECT_NO_THROW(check_layout(tensor_parallel(64), config, CheckpointFormat::bf16));
  expect_error([&] { check_layout(tensor_parallel(7), config, CheckpointFormat::fp8); },
               {"Total number of attention heads (64) must be divisible by tensor parallel size (7)"});
  expect_error(
      [&] { check_layout(tensor_parallel(32), config, CheckpointFormat::fp8); },
      {"--tensor-parallel-size: 32", "moe_intermediate_size = 2048", "blocks of 128", "1, 2, 4, 8, 16"});
  expect_error([&] { check_layout(tensor_parallel(64, true), config, CheckpointFormat::fp8); },
               {"kv_b_proj = 28672", "blocks of 128"});
  expect_error([&] { check_layout(tensor_parallel(0), config, CheckpointFormat::fp8); }, {"at least 1"});
  ModelConfig odd = config;
  odd.n_routed_experts = 252;
  expect_error([&] { check_layout(tensor_parallel(8, true), odd, CheckpointFormat::fp8); },
               {"--enable-expert-parallel", "252 experts", "8 ranks"});
  const RankLayout replicas{.tensor_parallel = 1, .data_parallel = 8, .expert_parallel = true};
  expect_error([&] { check_layout(replicas, odd, CheckpointFormat::fp8); }, {"252 experts", "8 ranks"});
  RankLayout striped = tensor_parallel(8);
  for (const int64_t ranks : {1, 2, 4, 8}) {
    striped.context_parallel = ranks;
    EXPECT_NO_THROW(check_layout(striped, config, CheckpointFormat::fp8));
  }
  for (const int64_t ranks : {0, 3, 16, -8}) {
    striped.context_parallel = ranks;
    expect_error([&] { check_layout(striped, config, CheckpointFormat::fp8); },
                 {"--decode-context-parallel-size", "divisor of --tensor-parallel-size 8"});
  }
}

TEST(Shares, BytesPerTokenOfAStripedCache) {
  // 656 bytes in each of 78 layers, 132 in each of the 21 with an indexer.
  const int64_t latent = int64_t{656} * 78;
  const int64_t index = int64_t{132} * 21;
  const auto per_token = [&](CacheStriping striping, int64_t ranks) {
    return striped_bytes(latent, index, striping, ranks) / ranks;
  };
  EXPECT_EQ(per_token(CacheStriping::replicated, 8), 53'940);
  EXPECT_EQ(per_token(CacheStriping::latent, 2), 28'356);
  EXPECT_EQ(per_token(CacheStriping::latent, 4), 15'564);
  EXPECT_EQ(per_token(CacheStriping::latent, 8), 9'168);
  EXPECT_EQ(per_token(CacheStriping::both, 8), 6'742);
}

TEST(Shares, TokensThatFit) {
  // vLLM's measured pool, 25.94 GiB a rank: 4.13 M tokens striped, 3.04 M with the index keys replicated; the
  // native plan's 48 GB: 877 k, 5.1 M and 7.0 M with the MTP layer.
  const auto budget = static_cast<int64_t>(25.94 * kGiB);
  EXPECT_NEAR(static_cast<double>(units_that_fit(budget, 656 * 78, 132 * 21, CacheStriping::both, 8)), 4.13e6,
              5e3);
  EXPECT_NEAR(static_cast<double>(units_that_fit(budget, 656 * 78, 132 * 21, CacheStriping::latent, 8)),
              3.04e6, 5e3);
  const int64_t native = 48'000'000'000;
  EXPECT_EQ(units_that_fit(native, 656 * 79, 132 * 22, CacheStriping::replicated, 8), 877'064);
  EXPECT_NEAR(static_cast<double>(units_that_fit(native, 656 * 79, 132 * 22, CacheStriping::latent, 8)),
              5.1e6, 5e4);
  EXPECT_NEAR(static_cast<double>(units_that_fit(native, 656 * 79, 132 * 22, CacheStriping::both, 8)), 7.0e6,
              5e4);
  EXPECT_EQ(units_that_fit(-5, 656, 132, CacheStriping::both, 8), 0);
}

}  // namespace
}  // namespace glint
