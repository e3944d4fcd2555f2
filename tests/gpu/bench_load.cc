// Loading a checkpoint that lies in the page cache: what users wait for, and how fast its two legs are alone.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "bench_parts.h"
#include "checkpoint/make_checkpoint.h"
#include "checkpoint/shard_set.h"
#include "engine/cuda_weights.h"
#include "gpu_support.h"

namespace glint::gpu {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kPinnedBytes = int64_t{256} << 20;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A folder in memory (that is page cache which nothing evicts), if this machine has one.
class Folder {
 public:
  Folder()
      : path_((fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) /
              cat("glint-gpu-bench-", ::getpid())) {}
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// GLM-5.3 with one dense and two MoE layers: 20.2 GB in FP8.
std::string config_text() {
  const char* const data = std::getenv("GLINT_TEST_DATA");
  Json config = parse_json(read_file(fs::path(data != nullptr ? data : "tests/data") / "glm-5.3-config.json"),
                           "glm-5.3-config.json");
  config["num_hidden_layers"] = 3;
  config["first_k_dense_replace"] = 1;
  config["indexer_types"] = {"full", "full", "full"};
  config["mlp_layer_types"] = {"dense", "sparse", "sparse"};
  config["num_nextn_predict_layers"] = 0;
  config["vocab_size"] = 1024;
  config["eos_token_id"] = {1020};
  config["pad_token_id"] = 1020;
  config.erase("quantization_config");
  return config.dump();
}

void bench_pinned_copy(Bench& bench) {
  const PinnedBytes host(kPinnedBytes);
  std::memset(host.data(), 1, static_cast<size_t>(kPinnedBytes));
  const DeviceBytes device("a copy's end", kPinnedBytes);
  const double us = bench.time_us(
      [&](int) {
        check(cudaMemcpyAsync(device.data(), host.data(), static_cast<size_t>(kPinnedBytes),
                              cudaMemcpyHostToDevice, bench.stream()),
              "cudaMemcpy");
      },
      4);
  bench.add_host("load: copy from pinned memory to the device", us / 1e6, static_cast<double>(kPinnedBytes));
}

/// All bytes of the files into small buffers, with as many threads as a load has.
void bench_page_cache(Bench& bench, const ShardSet& files, const char* round) {
  constexpr int64_t kPiece = int64_t{2} << 20;
  std::vector<std::pair<const SafetensorsFile*, int64_t>> pieces;
  int64_t bytes = 0;
  for (const SafetensorsFile& shard : files.shards) {
    bytes += shard.file_bytes();
    for (int64_t at = 0; at < shard.file_bytes(); at += kPiece) pieces.emplace_back(&shard, at);
  }
  std::atomic<size_t> next{0};
  const auto begin = Clock::now();
  parallel(shard_readers(), [&](int64_t) {
    std::vector<std::byte> buffer(static_cast<size_t>(kPiece));
    std::optional<InputFile> opened;
    for (size_t i = next++; i < pieces.size(); i = next++) {
      const auto& [shard, at] = pieces[i];
      if (!opened || opened->path() != shard->path()) opened.emplace(shard->path());
      opened->read(at,
                   std::span(buffer).first(static_cast<size_t>(std::min(kPiece, shard->file_bytes() - at))));
    }
  });
  bench.add_host(cat("load: reads from the page cache, ", shard_readers(), " threads, ", round), since(begin),
                 static_cast<double>(bytes));
}

}  // namespace

void bench_load(Bench& bench) {
  const Folder folder;
  MakeCheckpointOptions making;
  making.config_text = config_text();
  making.config_name = "config.json";
  making.format = CheckpointFormat::fp8;
  making.folder = folder.path();
  const auto begin = Clock::now();
  const MadeCheckpoint made = make_checkpoint(making);
  bench.add_host("load: writing the checkpoint (glint make-checkpoint)", since(begin),
                 static_cast<double>(made.tensor_bytes));
  bench_pinned_copy(bench);
  const ShardSet files = open_shards(folder.path());
  for (const char* round : {"first", "again"}) bench_page_cache(bench, files, round);
  const auto checkpoint = Checkpoint::open(folder.path());
  const Model model(bind_weights(checkpoint), rules_of(checkpoint->config()));
  for (const char* round : {"first", "again"}) {
    const auto loading = Clock::now();
    const CudaWeights weights(model, ComputeDType::bfloat16);
    bench.add_host(cat("load: the whole checkpoint to the device, ", round), since(loading),
                   static_cast<double>(weights.bytes()));
  }
}

}  // namespace glint::gpu
