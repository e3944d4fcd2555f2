// Conversions of a model for a measurement's time.
#pragma once

#include <filesystem>

#include "quantize/options.h"

namespace glint::bench {

/// The conversion that `glint quantize` makes, in a folder for temporary files that goes with this object.
class ConvertedModel {
 public:
  ConvertedModel(const std::filesystem::path& source, quantize::Target target);
  ~ConvertedModel();
  ConvertedModel(const ConvertedModel&) = delete;
  ConvertedModel& operator=(const ConvertedModel&) = delete;

  [[nodiscard]] std::filesystem::path folder() const { return above_ / "model"; }

 private:
  std::filesystem::path above_;
};

}  // namespace glint::bench
