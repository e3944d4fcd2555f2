#include "engine/cuda_expert_load.h"

#include "ops/cuda/route.h"

namespace glint {

CudaExpertLoad::CudaExpertLoad(CudaDevice& device)
    : device_(device),
      layers_(device.model().config().layers_with_mtp()),
      experts_(device.model().config().n_routed_experts),
      chosen_(device.model().config().num_experts_per_tok),
      counts_("expert load", layers_ * experts_ * 4),
      fading_(experts_),
      read_(layers_ * experts_ * 4) {
  std::unordered_map<const float*, uint32_t*> by_bias;
  uint32_t* next = counts();
  for (const LayerWeights& layer : device.model().weights().layers) {
    if (!layer.experts.empty()) by_bias.emplace(layer.e_score_correction_bias.data(), next);
    next += experts_;
  }
  clear();
  ops::cuda::halve_counts(counts(), layers_ * experts_, device.stream().get());  // loads the kernel
  device.count_choices(std::move(by_bias));
}

void CudaExpertLoad::step_enqueued(int64_t rows) {
  if (fading_.add(rows * chosen_))
    ops::cuda::halve_counts(counts(), layers_ * experts_, device_.stream().get());
}

void CudaExpertLoad::clear() {
  fading_.clear();
  ops::cuda::check(
      cudaMemsetAsync(counts_.data(), 0, static_cast<size_t>(layers_ * experts_ * 4), device_.stream().get()),
      "clearing the expert load");
}

std::vector<double> CudaExpertLoad::busiest_over_mean() const {
  const std::lock_guard lock(mutex_);
  const bool read = cudaSetDevice(device_.ordinal()) == cudaSuccess &&
                    cudaMemcpyAsync(read_.data(), counts_.data(), static_cast<size_t>(layers_ * experts_ * 4),
                                    cudaMemcpyDeviceToHost, reading_.get()) == cudaSuccess &&
                    cudaStreamSynchronize(reading_.get()) == cudaSuccess;
  if (!read) return {};
  std::vector<double> figures;
  const auto* const all = reinterpret_cast<const uint32_t*>(read_.data());
  for (int64_t layer = 0; layer < layers_; ++layer) {
    figures.push_back(glint::busiest_over_mean({all + layer * experts_, static_cast<size_t>(experts_)}));
  }
  return figures;
}

}  // namespace glint
