#include "quantize/verify_values.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/integers.h"
#include "base/numeric.h"
#include "quantize/codec_isa.h"
#include "quantize/coder.h"
#include "quantize/manifest.h"
#include "tensor/encode.h"

namespace glint::quantize {

namespace {

constexpr uint8_t kE4m3NanMagnitude = 0x7F;

/// Rows that are decoded at once.
constexpr int64_t kRows = 128;

int64_t rows_of(const ViewTensor& tensor) {
  return tensor.model.shape.size() == 2 ? tensor.model.shape[0] : 1;
}

template <class Bad>
void count_bytes(std::span<const std::byte> bytes, const Bad& bad, const std::string& what,
                 std::vector<std::string>& faults) {
  int64_t count = 0;
  size_t first = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!bad(std::to_integer<uint8_t>(bytes[i]))) continue;
    if (count++ == 0) first = i;
  }
  if (count > 0)
    faults.push_back(cat(what, ": ", count, " of ", bytes.size(), " bytes, the first at element ", first));
}

void check_floats(std::span<const std::byte> bytes, bool above_zero, const std::string& what,
                  std::vector<std::string>& faults) {
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const auto value = load_unaligned<float>(bytes.data() + i);
    if (std::isfinite(value) && (value > 0 || !above_zero)) continue;
    faults.push_back(cat(what, " is ", value, " at element ", i / 4, ", expected a finite number",
                         above_zero ? " above 0" : ""));
    return;
  }
}

void check_nvfp4(const ViewTensor& tensor, const ViewTensor* partner, bool by_maximum,
                 std::vector<std::string>& faults) {
  const std::string& name = tensor.model.name;
  count_bytes(
      tensor.stored[1], [](uint8_t byte) { return byte < kScaleMin || byte > kScaleMax; },
      name + "_scale: scales that are zero, negative or NaN", faults);
  check_floats(tensor.stored[2], true, name + "_scale_2", faults);
  if (tensor.stored_count < 4) {
    faults.push_back(name + ": has no input_scale, which loaders would leave unset");
  } else {
    check_floats(tensor.stored[3], true, name + ": its input_scale", faults);
  }
  if (partner != nullptr &&
      std::bit_cast<uint32_t>(partner->global_scale()) != std::bit_cast<uint32_t>(tensor.global_scale())) {
    faults.push_back(cat(name, "_scale_2 is ", tensor.global_scale(), ", but that of ", partner->model.name,
                         " is ", partner->global_scale(), ": gate and up must share it"));
  }
  const auto has_largest = [](const ViewTensor& each) {
    return std::find(each.stored[1].begin(), each.stored[1].end(), std::byte{kScaleMax}) !=
           each.stored[1].end();
  };
  const auto is_zero = [](const ViewTensor& each) {
    return std::all_of(each.stored[0].begin(), each.stored[0].end(),
                       [](std::byte byte) { return byte == std::byte{0}; });
  };
  if (!by_maximum || has_largest(tensor) || (partner != nullptr && has_largest(*partner)) || is_zero(tensor))
    return;
  faults.push_back(cat(name, "_scale: no block at 448, which the block of the largest weight must have"));
}

/// The source as BF16 bits: FP8 is decoded as the converter does.
std::vector<uint16_t> bf16_of(const ViewTensor& source) {
  std::vector<float> values;
  source.decode(0, rows_of(source), values);
  std::vector<uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), float_to_bf16);
  return bits;
}

uint16_t largest(const std::vector<uint16_t>& bits) {
  uint16_t amax = 0;
  for (const uint16_t each : bits) amax = std::max(amax, static_cast<uint16_t>(each & 0x7FFFU));
  return amax;
}

std::optional<std::string> bytes_fault(const std::string& name, std::span<const std::byte> stored,
                                       const void* wanted, size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(wanted);
  GLINT_CHECK(stored.size() == size);
  const auto at = std::mismatch(stored.begin(), stored.end(), bytes);
  if (at.first == stored.end()) return std::nullopt;
  return cat(name, ": byte ", at.first - stored.begin(), " is not what coding the source gives");
}

std::optional<std::string> recode_nvfp4(const ViewTensor& tensor, const ViewTensor& source,
                                        const ViewTensor* partner, ScaleSearch search) {
  const std::vector<uint16_t> weights = bf16_of(source);
  uint16_t amax = largest(weights);
  if (partner != nullptr) amax = std::max(amax, largest(bf16_of(*partner)));
  const auto bits = std::bit_cast<uint32_t>(tensor.global_scale());
  float global = 0;
  for (const GlobalScale mode : {GlobalScale::exact, GlobalScale::torch_cuda}) {
    const float each = global_scale_of(bf16_to_float(amax), mode);
    if (std::bit_cast<uint32_t>(each) == bits) global = each;
  }
  if (global == 0) {
    return cat(tensor.model.name, "_scale_2 is ", tensor.global_scale(), ", expected ",
               global_scale_of(bf16_to_float(amax), GlobalScale::exact), " from the source's largest weight");
  }
  const Codec& codec = portable_codec();
  const Nvfp4Tables tables = make_nvfp4_tables(global);
  const auto blocks = static_cast<int64_t>(weights.size()) / kBlock;
  std::vector<uint16_t> block_amax(static_cast<size_t>(blocks));
  std::vector<uint8_t> scales(block_amax.size());
  std::vector<uint8_t> packed(weights.size() / 2);
  codec.block_amax(weights.data(), blocks, block_amax.data());
  codec.max_scales(block_amax.data(), blocks, tables, scales.data());
  if (search == ScaleSearch::mse) codec.search_scales(weights.data(), blocks, tables, scales.data());
  codec.encode(weights.data(), blocks, tables, scales.data(), packed.data());
  if (auto fault = bytes_fault(tensor.model.name + "_scale", tensor.stored[1], scales.data(), scales.size()))
    return fault;
  return bytes_fault(tensor.model.name, tensor.stored[0], packed.data(), packed.size());
}

std::optional<std::string> recode_fp8(const ViewTensor& tensor, const ViewTensor& source) {
  const int64_t cols = tensor.model.shape[1];
  const int64_t scale_cols = ceil_div(cols, kFp8BlockSize);
  std::vector<float> values;
  std::vector<float> scales(static_cast<size_t>(scale_cols));
  for (int64_t row = 0; row < rows_of(tensor); row += kFp8BlockSize) {
    const int64_t end = std::min(rows_of(tensor), row + kFp8BlockSize);
    source.decode(row, end, values);
    std::vector<uint8_t> codes(values.size());
    encode_fp8_band(values.data(), end - row, cols, codes.data(), scales.data());
    const size_t scale_bytes = scales.size() * 4;
    const auto stored_scales =
        tensor.stored[1].subspan(static_cast<size_t>(row / kFp8BlockSize) * scale_bytes, scale_bytes);
    if (auto fault = bytes_fault(tensor.model.name + "_scale_inv", stored_scales, scales.data(), scale_bytes))
      return fault;
    const auto stored_codes = tensor.stored[0].subspan(static_cast<size_t>(row * cols), codes.size());
    if (auto fault = bytes_fault(tensor.model.name, stored_codes, codes.data(), codes.size())) return fault;
  }
  return std::nullopt;
}

/// A decoded tensor is the source rounded to BF16.
std::optional<std::string> decode_fault(const ViewTensor& tensor, const ViewTensor& source) {
  const std::vector<uint16_t> wanted = bf16_of(source);
  return bytes_fault(tensor.model.name, tensor.stored[0], wanted.data(), 2 * wanted.size());
}

}  // namespace

std::vector<std::string> value_faults(const ViewTensor& tensor, const ViewTensor* partner, bool by_maximum) {
  std::vector<std::string> faults;
  const std::string& name = tensor.model.name;
  switch (tensor.form) {
    case Form::nvfp4:
      check_nvfp4(tensor, partner, by_maximum, faults);
      break;
    case Form::fp8:
      count_bytes(
          tensor.stored[0], [](uint8_t byte) { return (byte & 0x7FU) == kE4m3NanMagnitude; }, name + ": NaN",
          faults);
      check_floats(tensor.stored[1], true, name + "_scale_inv", faults);
      break;
    case Form::f32:
      check_floats(tensor.stored[0], false, name, faults);
      break;
    case Form::bf16:
      for (size_t i = 0; i + 2 <= tensor.stored[0].size(); i += 2) {
        const auto bits = load_unaligned<uint16_t>(tensor.stored[0].data() + i);
        if ((bits & 0x7FFFU) < kBf16Infinity) continue;
        faults.push_back(cat(name, ": infinity or NaN at element ", i / 2));
        break;
      }
  }
  return faults;
}

TensorComparison compare_values(const ViewTensor& tensor, const ViewTensor& source) {
  double power = 0;
  double error = 0;
  double product = 0;
  double decoded_power = 0;
  TensorComparison result;
  std::vector<float> a;
  std::vector<float> b;
  for (int64_t row = 0; row < rows_of(tensor); row += kRows) {
    const int64_t end = std::min(rows_of(tensor), row + kRows);
    source.decode(row, end, a);
    tensor.decode(row, end, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const double w = a[i];
      const double v = b[i];
      power += w * w;
      decoded_power += v * v;
      product += w * v;
      error += (w - v) * (w - v);
      result.largest_error = std::max(result.largest_error, std::fabs(w - v));
    }
  }
  result.tensor = tensor.model.name;
  result.relative_rmse = power > 0 ? std::sqrt(error / power) : (error > 0 ? INFINITY : 0);
  result.snr_db = snr_db(power, error);
  result.cosine =
      power > 0 && decoded_power > 0 ? product / std::sqrt(power * decoded_power) : (error > 0 ? 0 : 1);
  return result;
}

std::optional<std::string> copy_fault(const ViewTensor& tensor, const ViewTensor& source) {
  GLINT_CHECK(tensor.form == source.form);
  if (tensor.stored_count != source.stored_count) {
    return cat(tensor.model.name, ": has ", tensor.stored_count, " tensors, the source ",
               source.stored_count);
  }
  for (uint32_t i = 0; i < tensor.stored_count; ++i) {
    if (!std::equal(tensor.stored[i].begin(), tensor.stored[i].end(), source.stored[i].begin(),
                    source.stored[i].end())) {
      return cat(tensor.model.name, ": is not the source's, bytes differ");
    }
  }
  return std::nullopt;
}

std::optional<std::string> recode_fault(const ViewTensor& tensor, const ViewTensor& source,
                                        const ViewTensor* partner, ScaleSearch search) {
  if (tensor.form == Form::nvfp4) return recode_nvfp4(tensor, source, partner, search);
  if (tensor.form == Form::fp8) return recode_fp8(tensor, source);
  return decode_fault(tensor, source);
}

}  // namespace glint::quantize
