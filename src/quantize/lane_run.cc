#include "quantize/lane_run.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/integers.h"
#include "tensor/encode.h"

namespace glint::quantize {

namespace {

/// Segments that belong to no step: the file's header.
constexpr size_t kNoStep = SIZE_MAX;

/// Bytes of one row of a stored weight.
int64_t row_bytes(const Job& job) {
  switch (job.from) {
    case Form::fp8:
      return job.shape[1];
    case Form::nvfp4:
      return job.shape[1] / 2;
    default:
      return job.shape[1] * 2;
  }
}

/// How much of a step is read at once: all of what becomes NVFP4, because its scale needs the maximum of the
/// whole; whole bands of 128 rows of other conversions; anything of the rest.
int64_t piece_bytes(const LaneStep& step, const Job& job) {
  if (step.kind != LaneStep::Kind::convert) return kPieceBytes;
  if (job.to == Form::nvfp4) return step.range.bytes;
  const int64_t band = row_bytes(job) * kFp8BlockSize;
  return std::max<int64_t>(1, kPieceBytes / band) * band;
}

}  // namespace

std::vector<Segment> Converter::LaneRun::segments(const Converter& c, const Lane& lane) {
  const SourceFile& file = c.plan_.files[lane.file];
  const bool all = c.hash_needed(lane.file);
  std::vector<Segment> segments;
  if (all) segments.push_back({kNoStep, 0, file.data_begin, {}});
  for (size_t i = 0; i < lane.steps.size(); ++i) {
    const LaneStep& step = lane.steps[i];
    if (!all && !c.step_needed(step)) continue;
    const int64_t end = step.range.begin + step.range.bytes;
    const int64_t piece = piece_bytes(step, c.plan_.jobs[step.job]);
    for (int64_t begin = step.range.begin; begin < end; begin += piece) {
      segments.push_back({i, begin, std::min(piece, end - begin), {}});
    }
  }
  return segments;
}

int64_t Converter::LaneRun::bytes(const Converter& c, const Lane& lane) {
  int64_t bytes = 0;
  for (const Segment& segment : segments(c, lane)) bytes += segment.bytes;
  return bytes;
}

Converter::LaneRun::LaneRun(Converter& converter, const Lane& lane)
    : c_(converter),
      lane_(lane),
      reader_(c_.options_.source / c_.plan_.files[lane.file].name, c_.plan_.files[lane.file].bytes,
              c_.plan_.files[lane.file].modified_ns) {
  reader_.check_unchanged();
  if (c_.hash_needed(lane.file)) hash_.emplace();
}

void Converter::LaneRun::run() {
  if (c_.more_.at_place) c_.more_.at_place("when a source is open");
  ReadAhead ahead(reader_, c_.pool_, segments(c_, lane_), kReadAheadBytes);
  Segment segment;
  while (!c_.stop_ && ahead.next(segment)) {
    if (hash_) hash_->update(segment.data());
    c_.bytes_read_ += segment.bytes;
    if (segment.step != kNoStep) handle(segment);
    c_.bytes_done_ += segment.bytes;
  }
  if (c_.stop_) return;
  reader_.check_unchanged();
  if (c_.journal_ == nullptr || !hash_) return;
  if (c_.more_.at_place) c_.more_.at_place("before a source is in the journal");
  c_.journal_->add_source(c_.plan_.files[lane_.file].name, hash_->hex(), c_.seconds());
}

void Converter::LaneRun::handle(const Segment& segment) {
  const LaneStep& step = lane_.steps[segment.step];
  if (!c_.step_needed(step)) return;
  if (step.kind == LaneStep::Kind::copy) {
    return c_.files_.write(step.output, segment.begin - step.range.begin, segment.data());
  }
  convert(step, segment);
}

void Converter::LaneRun::convert(const LaneStep& step, const Segment& segment) {
  const Job& job = c_.plan_.jobs[step.job];
  if (job.to != Form::nvfp4) {
    const int64_t bytes = row_bytes(job);
    return convert_rows(job, step.job, (segment.begin - step.range.begin) / bytes, segment.data(), bytes);
  }
  Weights weights = whole(step.job, segment.buffer, segment.data());
  if (job.partner < 0 || !job.partner_reread) return c_.meet(std::move(weights));
  const Weights partner = read_whole(static_cast<uint32_t>(job.partner));
  const uint16_t amax = std::max(weights.amax, partner.amax);
  c_.code(partner, amax);
  c_.code(weights, amax);
}

std::vector<std::byte> Converter::LaneRun::read_small(const SourceRange& range) {
  std::vector<std::byte> bytes(static_cast<size_t>(range.bytes));
  if (range.file == lane_.file) {
    reader_.read(range.begin, bytes);
  } else {
    const SourceFile& file = c_.plan_.files[range.file];
    SourceReader(c_.options_.source / file.name, file.bytes, file.modified_ns).read(range.begin, bytes);
  }
  return bytes;
}

namespace {

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

uint16_t* bf16_at(const Buffer& buffer) {
  return static_cast<uint16_t*>(static_cast<void*>(buffer.data()));
}

}  // namespace

/// Decodes or copies what is not BF16 at an even address.
Weights Converter::LaneRun::whole(uint32_t number, Buffer memory, std::span<const std::byte> data) {
  const Job& job = c_.plan_.jobs[number];
  const auto count = static_cast<size_t>(job.elements());
  Weights weights;
  weights.job = number;
  const bool as_it_is = job.from == Form::bf16 && reinterpret_cast<uintptr_t>(data.data()) % 2 == 0;
  if (as_it_is) {
    weights.memory = std::move(memory);
    weights.bits = {static_cast<const uint16_t*>(static_cast<const void*>(data.data())), count};
  } else {
    weights.memory = c_.pool_.take(job.elements() * 2);
    uint16_t* const bits = bf16_at(weights.memory);
    if (job.from == Form::bf16) {
      std::memcpy(bits, data.data(), data.size());
    } else {
      decode_fp8(data.data(), floats_of(read_small(job.stored[1])).data(), job.shape[0], job.shape[1], bits);
    }
    weights.bits = {bits, count};
  }
  weights.amax = find_amax(c_.codec_, weights.bits, job.shape[1], job.name, weights.block_amax);
  return weights;
}

Weights Converter::LaneRun::read_whole(uint32_t number) {
  const SourceRange& range = c_.plan_.jobs[number].stored[0];
  const SourceFile& file = c_.plan_.files[range.file];
  const SourceReader reader(c_.options_.source / file.name, file.bytes, file.modified_ns);
  reader.check_unchanged();
  ReadAhead ahead(reader, c_.pool_, {{0, range.begin, range.bytes, {}}}, range.bytes);
  Segment segment;
  GLINT_CHECK(ahead.next(segment));
  c_.bytes_read_ += segment.bytes;
  return whole(number, segment.buffer, segment.data());
}

/// Rows of whole bands: to FP8, or from FP8 or NVFP4 to BF16.
void Converter::LaneRun::convert_rows(const Job& job, uint32_t number, int64_t row,
                                      std::span<const std::byte> data, int64_t bytes_of_row) {
  const int64_t cols = job.shape[1];
  const int64_t rows = static_cast<int64_t>(data.size()) / bytes_of_row;
  const Buffer wide = c_.pool_.take(rows * cols * 2);
  uint16_t* const bits = bf16_at(wide);
  if (job.from == Form::bf16) {
    std::memcpy(bits, data.data(), data.size());
  } else if (job.from == Form::fp8) {
    const std::vector<float> scales = floats_of(read_small(job.stored[1]));
    const int64_t scale_cols = ceil_div(cols, kFp8BlockSize);
    decode_fp8(data.data(), scales.data() + row / kFp8BlockSize * scale_cols, rows, cols, bits);
  } else {
    SourceRange part = job.stored[1];
    part.begin += row * cols / kBlock;
    part.bytes = rows * cols / kBlock;
    decode_nvfp4(data.data(), read_small(part).data(), floats_of(read_small(job.stored[2]))[0], rows, cols,
                 bits);
  }
  if (job.to == Form::bf16) {
    check_finite({bits, static_cast<size_t>(rows * cols)}, row, cols, job.name);
    c_.files_.write_values(job.output_first, row * cols * 2, bits, rows * cols);
    return;
  }
  const int64_t scale_cols = ceil_div(cols, kFp8BlockSize);
  const int64_t scale_rows = ceil_div(rows, kFp8BlockSize);
  std::vector<float> scales(static_cast<size_t>(scale_rows * scale_cols));
  const Buffer codes = c_.pool_.take(rows * cols);
  auto* const out = static_cast<uint8_t*>(static_cast<void*>(codes.data()));
  c_.stats_[number].add(
      code_fp8({bits, static_cast<size_t>(rows * cols)}, row, cols, job.name, out, scales.data()));
  c_.files_.write_values(job.output_first, row * cols, out, rows * cols);
  c_.files_.write_values(job.output_first + 1, row / kFp8BlockSize * scale_cols * 4, scales.data(),
                         static_cast<int64_t>(scales.size()));
}

}  // namespace glint::quantize
