// One source file from its first byte to its last.
#pragma once

#include <optional>

#include "quantize/converter.h"
#include "base/digest.h"

namespace glint::quantize {

class Converter::LaneRun {
 public:
  LaneRun(Converter& converter, const Lane& lane);

  /// Reads, hashes, codes and writes until the file's end or until the converter stops.
  void run();

  /// Bytes that a run of this lane will read.
  static int64_t bytes(const Converter& converter, const Lane& lane);

 private:
  static std::vector<Segment> segments(const Converter& converter, const Lane& lane);
  void handle(const Segment& segment);
  void convert(const LaneStep& step, const Segment& segment);
  void convert_rows(const Job& job, uint32_t number, int64_t row, std::span<const std::byte> data,
                    int64_t cols_bytes);
  [[nodiscard]] Weights whole(uint32_t number, Buffer memory, std::span<const std::byte> data);
  [[nodiscard]] Weights read_whole(uint32_t number);
  [[nodiscard]] std::vector<std::byte> read_small(const SourceRange& range);

  Converter& c_;
  const Lane& lane_;
  SourceReader reader_;
  std::optional<Sha256> hash_;
};

}  // namespace glint::quantize
