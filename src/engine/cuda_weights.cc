#include "engine/cuda_weights.h"

#include <vector>

#include "base/integers.h"
#include "engine/cuda_upload.h"
#include "ops/cuda/standin.h"
#include "tensor/encode.h"

namespace glint {

namespace {

constexpr int64_t kAlign = 256;

int64_t data_bytes(const Weight& w) {
  const int64_t values = w.rows * w.cols;
  switch (w.format) {
    case WeightFormat::f32:
      return values * 4;
    case WeightFormat::bf16:
      return values * 2;
    case WeightFormat::fp8_block:
      return values;
    case WeightFormat::nvfp4:
      return values / 2;
  }
  return 0;
}
int64_t scale_bytes(const Weight& w) {
  return w.format == WeightFormat::fp8_block
             ? ceil_div(w.rows, int64_t{128}) * ceil_div(w.cols, int64_t{128}) * 4
             : 0;
}
int64_t block_scale_bytes(const Weight& w) {
  return w.format == WeightFormat::nvfp4 ? w.rows * (w.cols / 16) : 0;
}

/// A matrix that is made on the device: by what rule, and where its view stands.
struct Made {
  ops::cuda::StandinRule rule;
  Weight* weight = nullptr;
};

/// Gives out places in a slab; without one it only counts.
class Layout {
 public:
  /// Matrices that `source` computes are to be made, all others copied.
  Layout(std::byte* slab, const Checkpoint* source) : slab_(slab), source_(source) {}
  std::byte* take(int64_t bytes) {
    std::byte* place = slab_ == nullptr ? nullptr : slab_ + used_;
    used_ += ceil_div(bytes, kAlign) * kAlign;
    return place;
  }
  std::byte* place(const void* from, int64_t bytes) {
    std::byte* to = take(bytes);
    if (slab_ != nullptr) copied.push_back({static_cast<const std::byte*>(from), to, bytes});
    return to;
  }
  void place(Weight& w) {
    const Weight host = w;
    if (const auto values = source_ == nullptr ? std::nullopt : source_->generated(host.data)) {
      w.data = take(data_bytes(host));
      if (scale_bytes(host) > 0) w.scale = take(scale_bytes(host));
      if (block_scale_bytes(host) > 0)
        w.block_scale = reinterpret_cast<const uint8_t*>(take(block_scale_bytes(host)));
      made.push_back({{values->key(), values->base(), values->spread()}, &w});
      return;
    }
    w.data = place(host.data, data_bytes(host));
    if (scale_bytes(host) > 0) w.scale = place(host.scale, scale_bytes(host));
    if (block_scale_bytes(host) > 0) {
      w.block_scale = reinterpret_cast<const uint8_t*>(place(host.block_scale, block_scale_bytes(host)));
    }
  }
  [[nodiscard]] int64_t used() const { return used_; }

  std::vector<UploadRange> copied;
  std::vector<Made> made;

 private:
  std::byte* slab_;
  const Checkpoint* source_;
  int64_t used_ = 0;
};

/// One pass over the model: with a null slab it only counts.
struct Absorbed {
  Weight host;
  std::byte* to = nullptr;
};

void lay_out(ModelWeights& weights, ops::ComputeDType dtype, Layout& layout, std::vector<Absorbed>& absorbed,
             std::vector<std::pair<const ops::ExpertWeights*, std::byte*>>& tables) {
  const bool bf16 = dtype == ops::ComputeDType::bfloat16;
  each_weight(
      weights, [&](Weight& w) { layout.place(w); },
      [&](FloatVector& v) {
        v.set_device(reinterpret_cast<const float*>(
            layout.place(v.values().data(), static_cast<int64_t>(v.values().size()) * 4)));
      },
      [&](Weight& w) {
        std::byte* to = layout.take(w.rows * w.cols * (bf16 ? 2 : 4));
        absorbed.push_back({w, to});
        w = {.format = bf16 ? WeightFormat::bf16 : WeightFormat::f32,
             .rows = w.rows,
             .cols = w.cols,
             .data = to};
      },
      [&](std::vector<ops::ExpertWeights>& experts) {
        for (ops::ExpertWeights& e : experts) {
          layout.place(e.gate);
          layout.place(e.up);
          layout.place(e.down);
        }
        tables.emplace_back(experts.data(),
                            layout.take(static_cast<int64_t>(experts.size() * sizeof(ops::ExpertWeights))));
      });
}

/// What NVFP4 needs before it can be made: the global scale of each matrix, one for a gate and its up.
void find_global_scales(const std::vector<Made>& made, cudaStream_t stream) {
  std::vector<const Made*> fours;
  for (const Made& one : made) {
    if (one.weight->format == WeightFormat::nvfp4) fours.push_back(&one);
  }
  if (fours.empty()) return;
  GLINT_CHECK(fours.size() % 3 == 0);  // gate, up, down of each expert, as lay_out() places them
  const auto bytes = fours.size() * sizeof(float);
  const DeviceBytes largest("the experts' largest magnitudes", static_cast<int64_t>(bytes));
  auto* const amax = reinterpret_cast<float*>(largest.data());
  ops::cuda::check(cudaMemsetAsync(amax, 0, bytes, stream), "clearing magnitudes");
  const auto shared = [](size_t i) { return i % 3 == 1 ? i - 1 : i; };
  for (size_t i = 0; i < fours.size(); ++i) {
    const Weight& w = *fours[i]->weight;
    ops::cuda::largest_standin(fours[i]->rule, w.rows * w.cols, amax + shared(i), stream);
  }
  std::vector<float> found(fours.size());
  ops::cuda::check(cudaMemcpyAsync(found.data(), amax, bytes, cudaMemcpyDeviceToHost, stream),
                   "copying magnitudes");
  ops::cuda::check(cudaStreamSynchronize(stream), "waiting for the device");
  for (size_t i = 0; i < fours.size(); ++i)
    fours[i]->weight->global_scale = nvfp4_global_scale(found[shared(i)]);
}

void make_weights(const std::vector<Made>& made, cudaStream_t stream) {
  find_global_scales(made, stream);
  for (const Made& one : made) ops::cuda::make_standin(one.rule, *one.weight, stream);
}

/// Places for kv_b_proj of all layers as it is stored, from where it is laid out anew.
class StoredKvB {
 public:
  StoredKvB(const std::vector<Absorbed>& absorbed, const Checkpoint* source)
      : absorbed_(absorbed),
        slab_("kv_b_proj as it is stored", bytes_of(absorbed)),
        layout_(slab_.data(), source) {
    for (const Absorbed& one : absorbed) stored_.push_back(one.host);
    for (Weight& stored : stored_) layout_.place(stored);
  }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  void lay_out_anew(const ModelConfig& config, ops::ComputeDType dtype, cudaStream_t stream) const {
    for (size_t i = 0; i < stored_.size(); ++i) {
      ops::cuda::absorbed_layout(stored_[i], config.num_attention_heads, config.qk_nope_head_dim,
                                 config.v_head_dim, dtype, absorbed_[i].to, stream);
    }
  }

 private:
  static int64_t bytes_of(const std::vector<Absorbed>& absorbed) {
    Layout counting(nullptr, nullptr);
    for (Absorbed one : absorbed) counting.place(one.host);
    return counting.used();
  }

  const std::vector<Absorbed>& absorbed_;
  DeviceBytes slab_;
  Layout layout_;
  std::vector<Weight> stored_;
};

}  // namespace

int64_t device_weight_bytes(ModelWeights weights, ops::ComputeDType dtype) {
  std::vector<Absorbed> absorbed;
  std::vector<std::pair<const ops::ExpertWeights*, std::byte*>> tables;
  Layout counting(nullptr, nullptr);
  lay_out(weights, dtype, counting, absorbed, tables);
  return counting.used();
}

CudaWeights::CudaWeights(const Model& host, ops::ComputeDType dtype,
                         const std::function<bool(int64_t, int64_t)>& progress) {
  std::vector<Absorbed> absorbed;
  std::vector<std::pair<const ops::ExpertWeights*, std::byte*>> tables;
  const Checkpoint* const source = host.weights().checkpoint.get();
  bytes_ = device_weight_bytes(host.weights(), dtype);
  slab_ = std::make_unique<DeviceBytes>("weights", bytes_);
  ModelWeights weights = host.weights();
  Layout layout(slab_->data(), source);
  lay_out(weights, dtype, layout, absorbed, tables);
  {
    const StoredKvB kv_b(absorbed, source);
    const DeviceStream making;
    make_weights(layout.made, making.get());
    make_weights(kv_b.layout().made, making.get());
    std::vector<UploadRange> copied = layout.copied;
    copied.insert(copied.end(), kv_b.layout().copied.begin(), kv_b.layout().copied.end());
    upload(copied, source, progress);
    kv_b.lay_out_anew(host.config(), dtype, making.get());
    making.wait();
  }
  static_assert(sizeof(ops::ExpertWeights) == 3 * sizeof(Weight));
  for (const auto& [table, place] : tables) {
    const ops::ExpertWeights* known = table;
    size_t count = 0;
    const auto look = [&](const LayerWeights& layer) {
      if (layer.experts.data() == known) count = layer.experts.size();
    };
    for (const LayerWeights& layer : weights.layers) look(layer);
    look(weights.mtp.layer);
    ops::cuda::check(cudaMemcpy(place, table, count * sizeof(ops::ExpertWeights), cudaMemcpyHostToDevice),
                     "copying an expert table");
    tables_.emplace(known, reinterpret_cast<const Weight*>(place));
  }
  weights.checkpoint = nullptr;  // nothing points into the files any more
  model_ = std::make_shared<const Model>(std::move(weights), host.rules());
}

}  // namespace glint
