// The probe behind a trace: records what stands between the layers, and overrules it if asked.
#pragma once

#include "engine/trace.h"

namespace glint {

class TraceProbe final : public Probe {
 public:
  /// Records rows [first_kept, length) into `tensors`. `forced`, if not null, holds a trace of all `length`
  /// rows.
  TraceProbe(const ModelConfig& config, int64_t length, int64_t first_kept, TraceTensors& tensors,
             const SafetensorsFile* forced, bool layerwise);

  /// The next step holds the rows [first, first + count); with `record` false it is only overruled, not
  /// recorded.
  void begin_step(int64_t first, int64_t count, bool record);

  void layer_input(int64_t layer, ops::Ops& ops, ops::Activation x) override;
  void layer_output(int64_t layer, ops::Ops& ops, ops::Activation x) override;
  void selection(int64_t layer, ops::Ops& ops, int64_t rows, const ops::Selection& selection) override;
  void experts_chosen(int64_t layer, ops::Ops& ops, ops::Ints experts) override;
  void experts_weighed(int64_t layer, ops::Ops& ops, ops::Ints experts, ops::Floats weights) override;

 private:
  TraceTensor& tensor(const std::string& name, Dtype dtype, int64_t cols);
  template <class T>
  const T* forced_row(const std::string& name, int64_t row, int64_t cols) const;
  /// body(step_row, kept_row) for the rows of this step that are kept.
  template <class Body>
  void each_kept(const Body& body) const;

  const ModelConfig& config_;
  int64_t length_;
  int64_t first_kept_;
  TraceTensors& tensors_;
  const SafetensorsFile* forced_;
  bool layerwise_;
  int64_t first_ = 0;
  int64_t count_ = 0;
  bool record_ = true;
};

}  // namespace glint
