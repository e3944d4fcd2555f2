// Rounds on a CUDA device: one graph holds the rows' places, the model, the sampling, the verification and
// all drafting passes; the host copies page numbers in and a few tokens out.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "engine/captured_graph.h"
#include "engine/cuda_device.h"
#include "engine/cuda_expert_load.h"
#include "engine/round.h"
#include "ops/cuda/round.h"

namespace glint {

class CudaRounds final : public RoundRunner {
 public:
  /// For as many sequences and drafts as the device's options say. Takes all its memory. `load`, if not null,
  /// is told of every round. `leave_step` is called before a round: it gives back what the last step keeps in
  /// the device's arena.
  CudaRounds(CudaDevice& device, CudaExpertLoad* load, std::function<void()> leave_step);
  ~CudaRounds() override;

  /// Runs the largest round once. Writes to page 0 of the cache, as capture_all() does.
  void warm_up() { warm_up({sequences_max_, drafts_max_, contexts_.back()}); }
  /// Captures rounds of the usual sizes, until they hold `bytes_max` bytes of the device; other rounds are
  /// launched kernel by kernel, with the same results. While nothing else is in the device's arena.
  void capture_all(int64_t bytes_max);
  /// Of the device, that this and its graphs hold.
  [[nodiscard]] int64_t bytes() const { return own_bytes_ + graph_bytes_; }

  void set_sampleable(const std::vector<bool>& sampleable) override;
  [[nodiscard]] bool takes(int64_t sequences, int64_t drafts) const override;
  [[nodiscard]] int64_t context_limit() const override { return device_.context_limit(); }
  void start(const RoundDescription& round) override;
  RoundResult finish() override;

 private:
  struct Shape {
    int64_t sequences = 0, drafts = 0, context = 0;
    auto operator<=>(const Shape&) const = default;
  };
  /// Where things lie in the memory that is copied to the device, in bytes.
  struct Layout {
    Layout(int64_t sequences, int64_t drafts, int64_t page_numbers);
    int64_t params = 0, tokens = 0, position = 0, generated = 0, counted = 0, pages = 0, end = 0;
  };
  /// The same of what comes back.
  struct OutcomeLayout {
    OutcomeLayout(int64_t sequences, int64_t drafts);
    int64_t times = 0, taken = 0, tokens = 0, drafts = 0, end = 0;
  };
  struct Started {
    Shape shape;
    int64_t sequences = 0;
    bool continues = false;
  };

  [[nodiscard]] std::vector<int64_t> draft_counts() const;
  [[nodiscard]] Shape shape_of(const RoundDescription& round) const;
  void write_state(const RoundDescription& round, const Shape& shape, std::byte* host) const;
  void write_pages(const RoundDescription& round, const Shape& shape, std::byte* host) const;
  void send(const std::byte* host, int64_t begin, int64_t end);
  [[nodiscard]] ops::cuda::RoundState state(const Shape& shape) const;
  [[nodiscard]] ops::cuda::RoundOutcome outcome() const;
  [[nodiscard]] ops::RowMap row_map(const Shape& shape, int64_t rows) const;
  void enqueue(const Shape& shape);
  void enqueue_drafts(const Shape& shape, ops::Activation final_hidden);
  void sample(const Shape& shape, ops::Floats logits, int64_t rows_each, int64_t ahead, int32_t* tokens);
  void warm_up(const Shape& shape);

  void use_device() const;

  CudaDevice& device_;
  CudaExpertLoad* load_;
  std::function<void()> leave_step_;
  int64_t sequences_max_, drafts_max_, rows_max_;
  Layout layout_;
  OutcomeLayout outcome_layout_;
  int64_t scratch_bytes_;
  int64_t own_bytes_;
  DeviceBytes memory_;  // the layout, the outcome, the rows, the sampler's scratch, which ids are sampleable
  std::byte* device_outcome_;
  ops::cuda::RoundRows rows_, drafting_rows_;
  void* scratch_;
  uint32_t* sampleable_;
  std::vector<int64_t> sequence_sizes_, contexts_;
  std::map<Shape, CapturedGraph> graphs_;
  int64_t graph_bytes_ = 0;

  // Of the rounds under way, taking turns.
  std::array<PinnedBytes, kStartedMax> in_, out_;
  std::array<cudaEvent_t, kStartedMax> ended_{};
  std::array<Started, kStartedMax> started_;
  std::vector<int32_t> drafts_;  // of the round finished last
  uint64_t last_end_ns_ = 0;     // on the device's clock
  uint64_t starts_ = 0, finishes_ = 0;
};

}  // namespace glint
