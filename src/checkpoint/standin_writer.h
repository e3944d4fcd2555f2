// Computes the stored form of stand-in tensors piece by piece and hands it to a sink.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/plan.h"
#include "checkpoint/tensor_sink.h"

namespace glint {

class StandinWriter {
 public:
  /// Adds every stored tensor to `sink` in file order. `sink` and `config` must outlive the writer.
  StandinWriter(const ModelConfig& config, CheckpointFormat format, uint64_t seed, TensorSink& sink);

  /// The work in pieces that may run at the same time, in file order.
  [[nodiscard]] int64_t pieces() const { return static_cast<int64_t>(pieces_.size()); }
  void write(int64_t piece);

  [[nodiscard]] int64_t bytes_written() const { return bytes_written_; }

 private:
  /// Rows of one tensor; for NVFP4 a whole tensor, and a gate_proj stands for its up_proj too, because the
  /// two share weight_scale_2.
  struct Piece {
    size_t tensor;
    int64_t row_begin;
    int64_t row_end;
  };

  void add_pieces(size_t tensor);
  void put(TensorPlace place, int64_t offset, std::span<const std::byte> bytes);
  void write_plain(const Piece& piece);
  void write_fp8(const Piece& piece);
  void write_nvfp4(size_t tensor, float global_scale);

  const ModelConfig& config_;
  CheckpointFormat format_;
  uint64_t seed_;
  TensorSink& sink_;
  std::vector<ModelTensor> tensors_;
  std::vector<std::vector<TensorPlace>> places_;  // of each tensor's stored parts
  std::vector<Piece> pieces_;
  std::atomic<int64_t> bytes_written_{0};
};

}  // namespace glint
