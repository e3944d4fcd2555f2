#include "parallel/pipeline.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace glint {

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

void check_stage_count(int64_t stages, size_t starts) {
  if (stages >= 1 && stages <= static_cast<int64_t>(starts)) return;
  fail(ErrorKind::bad_input, "argument --pipeline-parallel-size: ", stages,
       ": a stage begins on a layer that owns an indexer, and this model has ", starts,
       " of them; choose 1 to ", starts);
}

/// Chooses one aligned start for each stage so that the stages' worth, combined by `join`, is least; the
/// lexicographically smallest partition among equals. worth(stage, first, end) is a stage's part.
template <class Worth, class Join>
PipelinePartition best_partition(const ModelConfig& config, int64_t stages, const Worth& worth,
                                 const Join& join) {
  const std::vector<int64_t> starts = aligned_starts(config);
  check_stage_count(stages, starts.size());
  const auto count = static_cast<int64_t>(starts.size());
  const auto at = [&](int64_t i) {
    return i < count ? starts[static_cast<size_t>(i)] : config.num_hidden_layers;
  };
  // least[s][i]: stages s, s + 1, ... cover the layers from start i on. Filled from the last stage back.
  const auto size = static_cast<size_t>(count) + 1;
  std::vector<std::vector<int64_t>> least(static_cast<size_t>(stages) + 1,
                                          std::vector<int64_t>(size, kNever));
  least.back().back() = 0;
  const auto rest = [&](int64_t stage, int64_t i) -> int64_t& {
    return least[static_cast<size_t>(stage)][static_cast<size_t>(i)];
  };
  const auto with = [&](int64_t stage, int64_t i, int64_t next) {
    const int64_t after = rest(stage + 1, next);
    return after == kNever ? kNever : join(worth(stage, at(i), at(next)), after);
  };
  for (int64_t stage = stages - 1; stage >= 0; --stage) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t next = i + 1; next <= count; ++next) {
        rest(stage, i) = std::min(rest(stage, i), with(stage, i, next));
      }
    }
  }
  // Forward again: the shortest stage with which the whole stays as good as the best.
  PipelinePartition partition;
  int64_t done = 0;
  bool any = false;
  for (int64_t stage = 0, i = 0; stage < stages; ++stage) {
    for (int64_t next = i + 1; next <= count; ++next) {
      int64_t total = with(stage, i, next);
      if (total != kNever && any) total = join(done, total);
      if (total != rest(0, 0)) continue;
      const int64_t part = worth(stage, at(i), at(next));
      done = any ? join(done, part) : part;
      any = true;
      partition.push_back(at(next) - at(i));
      i = next;
      break;
    }
  }
  GLINT_CHECK(static_cast<int64_t>(partition.size()) == stages);
  return partition;
}

}  // namespace

std::vector<int64_t> stage_starts(const PipelinePartition& partition) {
  std::vector<int64_t> starts;
  int64_t first = 0;
  for (const int64_t layers : partition) {
    starts.push_back(first);
    first += layers;
  }
  return starts;
}

std::vector<int64_t> aligned_starts(const ModelConfig& config) {
  std::vector<int64_t> starts;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (layer == 0 || config.has_indexer(layer)) starts.push_back(layer);
  }
  return starts;
}

PipelinePartition parse_partition(std::string_view text) {
  PipelinePartition partition;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int64_t layers = 0;
    const auto [next, error] = std::from_chars(at, end, layers);
    if (error != std::errc() || layers < 1 || (next != end && *next != ',')) {
      fail(ErrorKind::bad_input, "Invalid partition string: ", text,
           " (expected the layers of each stage, at least 1, with commas: 10,12,12)");
    }
    partition.push_back(layers);
    if (next == end) return partition;
    at = next + 1;
  }
}

void check_partition(const PipelinePartition& partition, int64_t pp_size, const ModelConfig& config) {
  if (static_cast<int64_t>(partition.size()) != pp_size) {
    fail(ErrorKind::bad_input, "len(partitions)=", partition.size(), " does not match pp_size=", pp_size,
         ": change --pp-layer-partition or --pipeline-parallel-size");
  }
  // Each number against the total first: the sum cannot overflow then.
  int64_t sum = 0;
  for (const int64_t layers : partition) {
    if (__builtin_add_overflow(sum, layers, &sum)) sum = kNever;
  }
  if (sum != config.num_hidden_layers) {
    fail(ErrorKind::bad_input, "sum(partitions)=", sum,
         " does not match num_hidden_layers=", config.num_hidden_layers, ": change --pp-layer-partition");
  }
}

std::vector<int64_t> unaligned_stages(const PipelinePartition& partition, const ModelConfig& config) {
  std::vector<int64_t> stages;
  const std::vector<int64_t> starts = stage_starts(partition);
  for (size_t stage = 1; stage < starts.size(); ++stage) {
    if (!config.has_indexer(starts[stage])) stages.push_back(static_cast<int64_t>(stage));
  }
  return stages;
}

PipelinePartition nearest_aligned(const PipelinePartition& partition, const ModelConfig& config) {
  const std::vector<int64_t> wanted = stage_starts(partition);
  const auto moved = [&](int64_t stage, int64_t first, int64_t /*end*/) {
    return std::abs(first - wanted[static_cast<size_t>(stage)]);
  };
  return best_partition(config, static_cast<int64_t>(partition.size()), moved,
                        [](int64_t a, int64_t b) { return a + b; });
}

PipelinePartition balanced_partition(const ModelConfig& config, int64_t stages, const StageCost& cost) {
  const auto worth = [&](int64_t /*stage*/, int64_t first, int64_t end) { return cost(first, end - first); };
  return best_partition(config, stages, worth, [](int64_t a, int64_t b) { return std::max(a, b); });
}

std::string partition_text(const PipelinePartition& partition) {
  std::string text;
  for (const int64_t layers : partition) text += cat(text.empty() ? "" : ",", layers);
  return text;
}

}  // namespace glint
