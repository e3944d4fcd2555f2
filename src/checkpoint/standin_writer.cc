#include "checkpoint/standin_writer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/numeric.h"
#include "checkpoint/standin_values.h"
#include "tensor/encode.h"

namespace glint {

namespace {

constexpr int64_t kPieceElements = int64_t{1} << 18;  // a piece's float32 values fit in the L2 or L3 cache

int64_t rows_of(const Shape& shape) {
  return shape.size() == 2 ? shape[0] : 1;
}
int64_t cols_of(const Shape& shape) {
  return shape.back();
}

/// Rows that make about kPieceElements, in multiples of `step`.
int64_t rows_per_piece(int64_t cols, int64_t step) {
  return std::max(step, kPieceElements / std::max<int64_t>(cols, 1) / step * step);
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values, int64_t count) {
  return std::as_bytes(std::span(values).first(static_cast<size_t>(count)));
}

float largest_magnitude(const StandinValues& values, int64_t count, std::vector<float>& buffer) {
  float amax = 0;
  for (int64_t first = 0; first < count; first += kPieceElements) {
    buffer.resize(static_cast<size_t>(std::min(kPieceElements, count - first)));
    values.fill_rounded(first, buffer);
    for (const float value : buffer) amax = std::max(amax, std::fabs(value));
  }
  return amax;
}

}  // namespace

StandinWriter::StandinWriter(const ModelConfig& config, CheckpointFormat format, uint64_t seed,
                             TensorSink& sink)
    : config_(config), format_(format), seed_(seed), sink_(sink), tensors_(model_tensors(config)) {
  places_.reserve(tensors_.size());
  for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    std::vector<TensorPlace>& places = places_.emplace_back();
    for (TensorSpec& stored : stored_tensors(tensors_[tensor], config_, format_)) {
      places.push_back(sink_.add(std::move(stored)));
    }
    add_pieces(tensor);
  }
}

void StandinWriter::add_pieces(size_t tensor) {
  const ModelTensor& model = tensors_[tensor];
  const int64_t rows = rows_of(model.shape);
  if (is_stored_nvfp4(model, config_, format_)) {
    if (!model.name.ends_with("up_proj.weight")) pieces_.push_back({tensor, 0, rows});
    return;
  }
  const int64_t step = is_stored_fp8(model, format_) ? kFp8BlockSize : 1;
  const int64_t count = rows_per_piece(cols_of(model.shape), step);
  for (int64_t row = 0; row < rows; row += count)
    pieces_.push_back({tensor, row, std::min(rows, row + count)});
}

void StandinWriter::write(int64_t piece_number) {
  const Piece& piece = pieces_[static_cast<size_t>(piece_number)];
  const ModelTensor& model = tensors_[piece.tensor];
  if (is_stored_fp8(model, format_)) return write_fp8(piece);
  if (!is_stored_nvfp4(model, config_, format_)) return write_plain(piece);

  const bool is_gate = model.name.ends_with("gate_proj.weight");
  GLINT_CHECK(!is_gate || tensors_[piece.tensor + 1].name.ends_with("up_proj.weight"));
  float amax = 0;
  std::vector<float> buffer;
  for (size_t tensor = piece.tensor; tensor <= piece.tensor + (is_gate ? 1 : 0); ++tensor) {
    const StandinValues values(tensors_[tensor].name, tensors_[tensor].shape, seed_);
    amax = std::max(amax, largest_magnitude(values, element_count(tensors_[tensor].shape), buffer));
  }
  const float global_scale = nvfp4_global_scale(amax);
  write_nvfp4(piece.tensor, global_scale);
  if (is_gate) write_nvfp4(piece.tensor + 1, global_scale);
}

void StandinWriter::put(TensorPlace place, int64_t offset, std::span<const std::byte> bytes) {
  sink_.write(place, offset, bytes);
  bytes_written_ += static_cast<int64_t>(bytes.size());
}

void StandinWriter::write_plain(const Piece& piece) {
  const ModelTensor& model = tensors_[piece.tensor];
  const StandinValues values(model.name, model.shape, seed_);
  const int64_t cols = cols_of(model.shape);
  const int64_t first = piece.row_begin * cols;
  const int64_t count = (piece.row_end - piece.row_begin) * cols;
  const TensorPlace place = places_[piece.tensor][0];
  if (model.role == TensorRole::vector_f32) {
    std::vector<float> wide(static_cast<size_t>(count));
    values.fill_f32(first, wide);
    return put(place, first * 4, bytes_of(wide, count));
  }
  std::vector<uint16_t> bits(static_cast<size_t>(count));
  values.fill_bf16(first, bits);
  put(place, first * 2, bytes_of(bits, count));
}

void StandinWriter::write_fp8(const Piece& piece) {
  const ModelTensor& model = tensors_[piece.tensor];
  const StandinValues values(model.name, model.shape, seed_);
  const int64_t cols = cols_of(model.shape);
  const int64_t scale_cols = fp8_scale_shape(model.shape)[1];
  std::vector<float> band(static_cast<size_t>(kFp8BlockSize * cols));
  std::vector<uint8_t> codes(band.size());
  std::vector<float> scales(static_cast<size_t>(scale_cols));
  for (int64_t row = piece.row_begin; row < piece.row_end; row += kFp8BlockSize) {
    const int64_t rows = std::min(kFp8BlockSize, piece.row_end - row);
    values.fill_rounded(row * cols, std::span(band).first(static_cast<size_t>(rows * cols)));
    encode_fp8_band(band.data(), rows, cols, codes.data(), scales.data());
    put(places_[piece.tensor][0], row * cols, bytes_of(codes, rows * cols));
    put(places_[piece.tensor][1], row / kFp8BlockSize * scale_cols * 4, bytes_of(scales, scale_cols));
  }
}

void StandinWriter::write_nvfp4(size_t tensor, float global_scale) {
  const ModelTensor& model = tensors_[tensor];
  const StandinValues values(model.name, model.shape, seed_);
  const std::vector<TensorPlace>& places = places_[tensor];
  const int64_t count = element_count(model.shape);
  const int64_t step = std::min(count, kPieceElements);
  std::vector<float> buffer(static_cast<size_t>(step));
  std::vector<uint8_t> packed(static_cast<size_t>(step / 2));
  std::vector<uint8_t> scales(static_cast<size_t>(step / kNvfp4BlockSize));
  for (int64_t first = 0; first < count; first += step) {
    const int64_t now = std::min(step, count - first);
    values.fill_rounded(first, std::span(buffer).first(static_cast<size_t>(now)));
    encode_nvfp4(buffer.data(), now, global_scale, packed.data(), scales.data());
    put(places[0], first / 2, bytes_of(packed, now / 2));
    put(places[1], first / kNvfp4BlockSize, bytes_of(scales, now / kNvfp4BlockSize));
  }
  constexpr float kInputScale = 1.0F;
  put(places[2], 0, std::as_bytes(std::span(&global_scale, 1)));
  put(places[3], 0, std::as_bytes(std::span(&kInputScale, 1)));
}

}  // namespace glint
