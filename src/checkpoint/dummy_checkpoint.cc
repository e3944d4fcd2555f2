#include "checkpoint/dummy_checkpoint.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "base/integers.h"
#include "base/numeric.h"
#include "base/threads.h"
#include "checkpoint/standin_writer.h"

namespace glint {

namespace {

constexpr int64_t kAlign = 64;

/// Anonymous memory that takes room when it is first written.
class ReservedMemory {
 public:
  explicit ReservedMemory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    void* const got =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) {
      fail(ErrorKind::io, "--load-format dummy: cannot reserve ", bytes,
           " bytes of memory for the weights: ", std::strerror(errno));
    }
    data_ = static_cast<std::byte*>(got);
  }
  ~ReservedMemory() { ::munmap(data_, bytes_); }
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  size_t bytes_;
  std::byte* data_ = nullptr;
};

/// Tensors one after another in memory that is taken once all are known.
class MemorySink final : public TensorSink {
 public:
  TensorPlace add(TensorSpec tensor) override {
    const int64_t bytes = tensor.bytes();
    by_name_.emplace(tensor.name, begins_.size());
    begins_.push_back(end_);
    end_ += ceil_div(bytes, kAlign) * kAlign;
    counts_.add(tensor.dtype, bytes);
    return {0, begins_.size() - 1};
  }
  void write(TensorPlace place, int64_t offset, std::span<const std::byte> bytes) override {
    std::memcpy(memory_->data() + begins_[place.tensor] + offset, bytes.data(), bytes.size());
  }

  void reserve() { memory_ = std::make_unique<ReservedMemory>(end_); }
  /// Null if there is no such tensor.
  [[nodiscard]] const std::byte* find(const std::string& name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : memory_->data() + begins_[at->second];
  }
  [[nodiscard]] const TensorCounts& counts() const { return counts_; }

 private:
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<int64_t> begins_;
  int64_t end_ = 0;
  TensorCounts counts_;
  std::unique_ptr<ReservedMemory> memory_;
};

class DummyCheckpoint final : public Checkpoint {
 public:
  DummyCheckpoint(const std::filesystem::path& folder, CheckpointFormat format, uint64_t seed)
      : folder_(folder),
        config_(load_model_config(folder / "config.json")),
        seed_(seed),
        writer_(config_, format, seed, sink_) {
    sink_.reserve();
    for (ModelTensor& tensor : model_tensors(config_)) {
      if (tensor.shape.size() == 1) {
        vectors_.emplace(tensor.name, tensor);
        continue;
      }
      const std::string module = tensor.name.substr(0, tensor.name.size() - kWeight.size());
      Weight view = view_of(tensor, module, format);
      by_address_.emplace(static_cast<const std::byte*>(view.data), tensor);
      matrices_.emplace(module, view);
    }
  }

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const std::filesystem::path& folder() const override { return folder_; }
  [[nodiscard]] int64_t tensor_bytes() const override { return sink_.counts().total().bytes; }
  [[nodiscard]] int64_t file_bytes() const override { return tensor_bytes(); }
  [[nodiscard]] TensorCounts tensor_counts() const override { return sink_.counts(); }
  [[nodiscard]] int64_t shards() const override { return 0; }

  [[nodiscard]] Weight matrix(const std::string& module) const override {
    const auto at = matrices_.find(module);
    if (at == matrices_.end())
      fail(ErrorKind::internal, folder_.string(), ": the model has no matrix ", module);
    Weight weight = at->second;
    if (weight.format == WeightFormat::nvfp4 && filled_) {
      weight.global_scale = load_unaligned<float>(sink_.find(module + ".weight_scale_2"));
    }
    return weight;
  }

  [[nodiscard]] std::vector<float> vector(const std::string& name) const override {
    const auto at = vectors_.find(name);
    if (at == vectors_.end()) fail(ErrorKind::internal, folder_.string(), ": the model has no vector ", name);
    const ModelTensor& tensor = at->second;
    std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
    const StandinValues standin(name, tensor.shape, seed_);
    if (tensor.role == TensorRole::vector_f32) {
      standin.fill_f32(0, values);
    } else {
      standin.fill_rounded(0, values);
    }
    return values;
  }

  void read_all(const std::function<bool(int64_t, int64_t)>& progress) const override {
    if (filled_) return;
    const int64_t total = tensor_bytes();
    ThreadPool pool;
    std::atomic<bool> stop{false};
    pool.run(writer_.pieces(), [&](int64_t piece, int worker) {
      if (stop) return;
      writer_.write(piece);
      if (worker == 0 && progress && !progress(writer_.bytes_written(), total)) stop = true;
    });
    if (stop) return;
    GLINT_CHECK(writer_.bytes_written() == total);
    filled_ = true;
    if (progress) (void)progress(total, total);
  }

  [[nodiscard]] std::optional<StandinValues> generated(const void* data) const override {
    const auto at = by_address_.find(static_cast<const std::byte*>(data));
    if (at == by_address_.end()) return std::nullopt;
    return StandinValues(at->second.name, at->second.shape, seed_);
  }

 private:
  static constexpr std::string_view kWeight = ".weight";

  [[nodiscard]] Weight view_of(const ModelTensor& tensor, const std::string& module,
                               CheckpointFormat format) const {
    Weight view{.rows = tensor.shape[0], .cols = tensor.shape[1], .data = sink_.find(tensor.name)};
    if (is_stored_fp8(tensor, format)) {
      view.format = WeightFormat::fp8_block;
      view.scale = sink_.find(tensor.name + "_scale_inv");
    } else if (is_stored_nvfp4(tensor, config_, format)) {
      view.format = WeightFormat::nvfp4;
      view.block_scale = reinterpret_cast<const uint8_t*>(sink_.find(module + ".weight_scale"));
    }
    return view;
  }

  std::filesystem::path folder_;
  ModelConfig config_;
  uint64_t seed_;
  MemorySink sink_;
  // Filling is what reading is of a checkpoint with files: it changes no answer but that values are there.
  mutable StandinWriter writer_;
  mutable std::atomic<bool> filled_{false};
  std::unordered_map<std::string, Weight> matrices_;
  std::unordered_map<std::string, ModelTensor> vectors_;
  std::unordered_map<const std::byte*, ModelTensor> by_address_;
};

}  // namespace

std::shared_ptr<const Checkpoint> open_dummy_checkpoint(const std::filesystem::path& folder,
                                                        CheckpointFormat format, uint64_t seed) {
  return std::make_shared<DummyCheckpoint>(folder, format, seed);
}

}  // namespace glint
