#include "parallel/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "support/expect_error.h"

namespace glint {
namespace {

ModelConfig published() {
  return load_model_config(std::filesystem::path(GLINT_TEST_DATA) / "glm-5.3-config.json");
}

TEST(Pipeline, PublishedStartsAreTheFullLayers) {
  std::vector<int64_t> wanted = {0, 1, 2};
  for (int64_t layer = 6; layer < 78; layer += 4) wanted.push_back(layer);
  EXPECT_EQ(aligned_starts(published()), wanted);
}

TEST(Pipeline, AModelWhoseLayersAreAllFullMayBeCutAnywhere) {
  ModelConfig config = published();
  config.indexer_full.assign(config.indexer_full.size(), true);
  EXPECT_EQ(aligned_starts(config).size(), 78U);
  EXPECT_TRUE(unaligned_stages({39, 39}, config).empty());
}

TEST(Pipeline, PublishedPartitionsAreAligned) {
  for (const char* text : {"38,40", "42,36", "26,28,24", "18,20,20,20", "22,20,20,16", "18,16,16,16,12",
                           "14,16,12,12,12,12", "10,12,12,12,12,12,8", "10,12,8,12,8,12,8,8"}) {
    const PipelinePartition partition = parse_partition(text);
    EXPECT_NO_THROW(check_partition(partition, static_cast<int64_t>(partition.size()), published())) << text;
    EXPECT_TRUE(unaligned_stages(partition, published()).empty()) << text;
    EXPECT_EQ(nearest_aligned(partition, published()), partition) << text;
    EXPECT_EQ(partition_text(partition), text);
  }
  EXPECT_EQ(stage_starts({10, 12, 12, 12, 12, 12, 8}), (std::vector<int64_t>{0, 10, 22, 34, 46, 58, 70}));
}

TEST(Pipeline, TheEvenSplitIsNotAligned) {
  EXPECT_EQ(unaligned_stages({39, 39}, published()), std::vector<int64_t>{1});
  EXPECT_EQ(nearest_aligned({39, 39}, published()), (PipelinePartition{38, 40}));
}

TEST(Pipeline, RefusalsAsUsersKnowThem) {
  for (const char* text : {"", "a", "10,", ",10", "10,,12", "10, 12", "0,78", "-1,79", "10.5", "10 12",
                           "99999999999999999999"}) {
    expect_error([&] { (void)parse_partition(text); }, {"Invalid partition string: ", text});
  }
  expect_error(
      [] {
        check_partition({40, 38}, 3, published());
      },
      {"len(partitions)=2 does not match pp_size=3"});
  expect_error(
      [] {
        check_partition({40, 39}, 2, published());
      },
      {"sum(partitions)=79 does not match num_hidden_layers=78"});
  const int64_t huge = std::numeric_limits<int64_t>::max();
  expect_error(
      [&] {
        check_partition({huge, huge}, 2, published());
      },
      {"does not match num_hidden_layers=78"});
  expect_error([] { (void)balanced_partition(published(), 22, [](int64_t, int64_t n) { return n; }); },
               {"--pipeline-parallel-size: 22", "choose 1 to 21"});
  expect_error([] { (void)balanced_partition(published(), 0, [](int64_t, int64_t n) { return n; }); },
               {"--pipeline-parallel-size: 0"});
}

/// Every aligned partition, by plain recursion.
void each_partition(const std::vector<int64_t>& starts, int64_t layers, int64_t stages,
                    PipelinePartition& made, size_t from,
                    const std::function<void(const PipelinePartition&)>& visit) {
  if (stages == 1) {
    made.push_back(layers - starts[from]);
    visit(made);
    made.pop_back();
    return;
  }
  for (size_t next = from + 1; next < starts.size(); ++next) {
    made.push_back(starts[next] - starts[from]);
    each_partition(starts, layers, stages - 1, made, next, visit);
    made.pop_back();
  }
}

TEST(Pipeline, BalancedIsTheBestOfAll) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    ModelConfig config = published();
    config.num_hidden_layers = 14;
    config.indexer_full.assign(14, false);
    config.indexer_full[0] = true;
    for (size_t layer = 1; layer < 14; ++layer) config.indexer_full[layer] = random() % 2 == 0;
    std::vector<int64_t> weight(14);
    for (int64_t& w : weight) w = 1 + static_cast<int64_t>(random() % 5);
    const StageCost cost = [&](int64_t first, int64_t layers) {
      int64_t sum = first == 0 ? 3 : 0;
      if (first + layers == 14) sum += 4;
      for (int64_t layer = first; layer < first + layers; ++layer) sum += weight[static_cast<size_t>(layer)];
      return sum;
    };
    const std::vector<int64_t> starts = aligned_starts(config);
    for (int64_t stages = 1; stages <= static_cast<int64_t>(starts.size()); ++stages) {
      PipelinePartition best;
      int64_t least = std::numeric_limits<int64_t>::max();
      PipelinePartition made;
      each_partition(starts, 14, stages, made, 0, [&](const PipelinePartition& partition) {
        int64_t dearest = 0;
        int64_t first = 0;
        for (const int64_t layers : partition) {
          dearest = std::max(dearest, cost(first, layers));
          first += layers;
        }
        if (dearest < least || (dearest == least && partition < best)) {
          least = dearest;
          best = partition;
        }
      });
      ASSERT_EQ(balanced_partition(config, stages, cost), best) << "round " << round << " stages " << stages;
    }
  }
}

TEST(Pipeline, NearestMovesTheFewestLayers) {
  std::mt19937 random(6);
  const ModelConfig config = published();
  for (int round = 0; round < 40; ++round) {
    PipelinePartition given = {1 + static_cast<int64_t>(random() % 40),
                               1 + static_cast<int64_t>(random() % 30)};
    given.push_back(78 - given[0] - given[1]);
    int64_t least = std::numeric_limits<int64_t>::max();
    PipelinePartition best;
    PipelinePartition made;
    each_partition(aligned_starts(config), 78, 3, made, 0, [&](const PipelinePartition& partition) {
      const int64_t moved =
          std::abs(partition[0] - given[0]) + std::abs(partition[0] + partition[1] - given[0] - given[1]);
      if (moved < least || (moved == least && partition < best)) {
        least = moved;
        best = partition;
      }
    });
    ASSERT_EQ(nearest_aligned(given, config), best) << partition_text(given);
  }
}

}  // namespace
}  // namespace glint
