#include "bench/model_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <iostream>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "bench/limits.h"
#include "bench/step_cost.h"
#include "bench/timing.h"
#include "checkpoint/make_checkpoint.h"
#include "engine/cpu_executor.h"
#include "engine/serving_engine.h"
#include "text/standin_tokenizer.h"

namespace glint::bench {

namespace {

constexpr int64_t kSequencesMax = 16;
constexpr int64_t kChunk = 1024;  // rows of a prefill step

struct Rates {
  double bytes_per_s = 0;
  double multiply_adds_per_s = 0;
  std::string arithmetic;  // "multiply-add" or "BF16 dot"
};

Rates measure_rates(const ModelBenchOptions& options) {
  ThreadPool pool(options.threads);
  std::vector<std::byte> memory(size_t{512} << 20, std::byte{1});
  Rates rates;
  for (int round = 0; round < 3; ++round) {
    rates.bytes_per_s = std::max(rates.bytes_per_s, read_rate(pool, options.isa, memory));
  }
  const double dots = bf16_dot_rate(pool, options.isa);
  rates.arithmetic = dots > 0 ? "BF16 dot" : "multiply-add";
  rates.multiply_adds_per_s = (dots > 0 ? dots : fma_rate(pool, options.isa)) / 2;
  return rates;
}

std::vector<std::filesystem::path> shards_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> shards;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") shards.push_back(entry.path());
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

/// Puts the files out of the page cache.
void forget_files(const std::vector<std::filesystem::path>& files) {
  for (const auto& file : files) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(ErrorKind::io, file.string(), ": cannot open");
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

/// One thread, one buffer, from the first byte to the last; returns the bytes.
int64_t read_plainly(const std::vector<std::filesystem::path>& files) {
  std::vector<char> buffer(size_t{4} << 20);
  int64_t total = 0;
  for (const auto& file : files) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(ErrorKind::io, file.string(), ": cannot open");
    for (ssize_t got = 0; (got = ::read(fd, buffer.data(), buffer.size())) > 0;) total += got;
    ::close(fd);
  }
  return total;
}

/// A stand-in checkpoint with one form of weights, and what is measured on it.
class ModelBench {
 public:
  ModelBench(const ModelBenchOptions& options, const char* format, const Rates& rates, Report& report)
      : options_(options),
        format_(format),
        rates_(rates),
        report_(report),
        folder_(options.folder / (std::string("cpu-") + format)),
        context_(options.quick ? 512 : 4096) {}

  void run() {
    make();
    load();
    start();
    prefill();
    for (const int64_t sequences : {int64_t{1}, int64_t{4}, kSequencesMax}) decode(sequences);
    device_.reset();
    own_time();
  }

 private:
  /// Sees which experts a step chooses.
  class ExpertProbe final : public Probe {
   public:
    explicit ExpertProbe(ChosenExperts& chosen) : chosen_(chosen) {}
    void experts_chosen(int64_t layer, ops::Ops& /*ops*/, ops::Ints experts) override {
      chosen_[static_cast<size_t>(layer)].insert(experts.data, experts.data + experts.rows * experts.cols);
    }

   private:
    ChosenExperts& chosen_;
  };

  void make() const {
    if (std::filesystem::exists(folder_ / "config.json")) return;
    std::filesystem::remove_all(folder_);
    Progress progress("Writing " + folder_.string());
    MakeCheckpointOptions make_options;
    make_options.config_text = read_file(options_.config);
    make_options.config_name = options_.config.string();
    make_options.format = parse_format(format_);
    make_options.seed = 1;
    make_options.folder = folder_;
    make_options.progress = [&](int64_t done, int64_t total) { progress.update(done, total); };
    progress.finish(make_checkpoint(make_options).tensor_bytes);
  }

  void load() {
    const auto files = shards_of(folder_);
    forget_files(files);
    int64_t bytes = 0;
    const double plain = time_of([&] { bytes = read_plainly(files); });
    forget_files(files);
    const double seconds = time_of([&] {
      checkpoint_ = Checkpoint::open(folder_);
      checkpoint_->read_all([](int64_t, int64_t) { return true; });
    });
    const double gigabytes = static_cast<double>(bytes) / 1e9;
    report_.add({"load", format_ + " checkpoint, opened, checked and read", seconds, gigabytes / seconds,
                 gigabytes / plain, "GB/s", "plain read of the same files"});
  }

  void start() {
    model_ = std::make_shared<const Model>(bind_weights(checkpoint_), rules_of(checkpoint_->config()));
    weights_ = bind_weights(checkpoint_);
    pages_per_sequence_ = context_ / ops::kPageTokens + 1;
    device_ = std::make_unique<CpuDevice>(
        model_, device_options(kChunk, context_ + ops::kPageTokens, pages_per_sequence_));
  }

  [[nodiscard]] DeviceOptions device_options(int64_t rows, int64_t context,
                                             int64_t pages_per_sequence) const {
    DeviceOptions device;
    device.isa = options_.isa;
    device.threads = options_.threads;
    device.rows_max = rows;
    device.logits_max = kSequencesMax;
    device.context_max = context;
    device.pages = pages_per_sequence * kSequencesMax;
    return device;
  }

  [[nodiscard]] int32_t token(int64_t sequence, int64_t position) const {
    return static_cast<int32_t>((position * 7919 + sequence * 104729 + 17) %
                                (checkpoint_->config().vocab_size - 300));
  }

  /// Rows [first, first + count) of each of the sequences; the last row of each gives logits.
  StepDescription describe(int64_t sequences, int64_t first, int64_t count) const {
    StepDescription step;
    step.pages_stride = pages_per_sequence_;
    step.context_max = first + count;
    for (int64_t s = 0; s < sequences; ++s) {
      for (int64_t position = first; position < first + count; ++position) {
        step.tokens.push_back(token(s, position));
        step.positions.push_back(static_cast<int32_t>(position));
        step.sequences.push_back(static_cast<int32_t>(s));
      }
      step.logits_rows.push_back(static_cast<int32_t>(step.tokens.size()) - 1);
      for (int64_t page = 0; page < pages_per_sequence_; ++page) {
        step.pages.push_back(static_cast<int32_t>(s * pages_per_sequence_ + page));
      }
    }
    return step;
  }

  void execute(const StepDescription& description, Probe* probe = nullptr) {
    const ops::Arena::Scope scope(device_->arena());
    model_->forward(device_->ops(), step_of(description), device_->cache().views(), probe);
  }

  /// The cost of a step, with the experts that it really chooses.
  StepCost cost_of(const StepDescription& description) {
    ChosenExperts chosen(static_cast<size_t>(checkpoint_->config().num_hidden_layers));
    ExpertProbe probe(chosen);
    execute(description, &probe);
    std::vector<int64_t> contexts;
    for (const int32_t position : description.positions) contexts.push_back(position + 1);
    const CacheLayout& layout = device_->cache().layout();
    return step_cost(weights_, contexts, static_cast<int64_t>(description.logits_rows.size()), chosen,
                     layout.index_row_bytes + 4, layout.latent_row_bytes);
  }

  [[nodiscard]] double limit_seconds(const StepCost& cost) const {
    return std::max(cost.bytes / rates_.bytes_per_s, cost.multiply_adds / rates_.multiply_adds_per_s);
  }

  void prefill() {
    double seconds = 0;
    double limit = 0;
    execute(describe(1, 0, kChunk / 2));  // the weights' first touch is the load's business
    for (int64_t first = 0; first < context_; first += kChunk) {
      const int64_t count = std::min(kChunk, context_ - first);
      const StepDescription step = describe(1, first, count);
      seconds += time_of([&] { execute(step); });
      limit += limit_seconds(cost_of(step));
    }
    const auto tokens = static_cast<double>(context_);
    report_.add({"prefill", format_ + ", " + std::to_string(context_) + " tokens", seconds, tokens / seconds,
                 tokens / limit, "tokens/s", rates_.arithmetic});
  }

  void decode(int64_t sequences) {
    // Every sequence has a cache of its own to read; the contents are those of the first.
    std::byte* pages = device_->cache().views().latent[0].base;
    const int64_t bytes = device_->cache().layout().page_bytes * pages_per_sequence_;
    for (int64_t s = 1; s < sequences; ++s) std::memcpy(pages + s * bytes, pages, static_cast<size_t>(bytes));
    const int repeats = options_.quick ? 5 : 15;
    std::vector<double> times;
    std::vector<double> limits;
    for (int i = 0; i < repeats; ++i) {
      const StepDescription step = describe(sequences, context_ + i, 1);
      times.push_back(time_of([&] { execute(step); }));
      limits.push_back(limit_seconds(cost_of(step)));
    }
    const double seconds = median(times);
    const auto tokens = static_cast<double>(sequences);
    report_.add(
        {"decode",
         format_ + ", context " + std::to_string(context_) + ", " + std::to_string(sequences) + " sequences",
         seconds, tokens / seconds, tokens / median(limits), "tokens/s", "memory"});
  }

  /// The whole engine with 16 requests: its own time per step.
  void own_time() {
    write_standin_tokenizer(checkpoint_->config(), folder_);
    const int64_t rows = 256;
    auto device = std::make_unique<CpuDevice>(model_, device_options(rows, 256, 4));
    ServingOptions serving;
    serving.max_model_len = 256;
    serving.scheduler = {.max_num_seqs = kSequencesMax, .max_num_batched_tokens = rows};
    std::atomic<int64_t> open{kSequencesMax};
    ServingEngine engine(std::make_unique<CpuExecutor>(std::move(device)), Tokenizer::load(folder_), serving,
                         [&](std::span<StepOutput> outputs) {
                           for (const StepOutput& output : outputs)
                             open -= output.finish != FinishReason::none;
                         });
    for (int64_t s = 0; s < kSequencesMax; ++s) {
      EngineRequest request;
      for (int64_t i = 0; i < 16; ++i) request.prompt.push_back(token(s, i));
      request.sampling.temperature = 0;
      request.sampling.ignore_eos = true;
      request.sampling.max_tokens = options_.quick ? 16 : 64;
      engine.submit(std::move(request));
    }
    while (open > 0) ::usleep(10000);
    const EngineStats stats = engine.stats();
    report_.add({"engine", format_ + ", own time a step, 16 sequences, without executing and sampling",
                 stats.step_overhead_us_mean * 1e-6, stats.step_overhead_us_mean, 100, "us",
                 "wanted at most"});
    report_.add({"engine", format_ + ", sampling a step, 16 sequences, greedy",
                 stats.step_sampling_us_mean * 1e-6, stats.step_sampling_us_mean, 0, "us", ""});
  }

  const ModelBenchOptions& options_;
  std::string format_;
  const Rates& rates_;
  Report& report_;
  std::filesystem::path folder_;
  int64_t context_;
  int64_t pages_per_sequence_ = 0;
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::shared_ptr<const Model> model_;
  ModelWeights weights_;
  std::unique_ptr<CpuDevice> device_;
};

}  // namespace

void bench_model(const ModelBenchOptions& options, Report& report) {
  const Rates rates = measure_rates(options);
  report.note("memory rate, GB/s", rates.bytes_per_s / 1e9);
  report.note(rates.arithmetic + " rate, GFLOP/s", 2 * rates.multiply_adds_per_s / 1e9);
  for (const char* format : {"fp8", "bf16"}) ModelBench(options, format, rates, report).run();
}

}  // namespace glint::bench
