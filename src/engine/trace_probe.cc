#include "engine/trace_probe.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace glint {

namespace {

std::string layer_name(const char* kind, int64_t layer) {
  return std::string(kind) + "." + std::to_string(layer);
}

}  // namespace

TraceProbe::TraceProbe(const ModelConfig& config, int64_t length, int64_t first_kept, TraceTensors& tensors,
                       const SafetensorsFile* forced, bool layerwise)
    : config_(config),
      length_(length),
      first_kept_(first_kept),
      tensors_(tensors),
      forced_(forced),
      layerwise_(layerwise) {}

void TraceProbe::begin_step(int64_t first, int64_t count, bool record) {
  first_ = first;
  count_ = count;
  record_ = record;
}

TraceTensor& TraceProbe::tensor(const std::string& name, Dtype dtype, int64_t cols) {
  TraceTensor& t = tensors_[name];
  if (t.shape.empty()) {
    t.dtype = dtype;
    t.shape = {length_ - first_kept_, cols};
    const auto size = static_cast<size_t>(t.shape[0] * cols);
    if (dtype == Dtype::f32) {
      t.floats.resize(size);
    } else {
      t.ints.assign(size, -1);
    }
  }
  return t;
}

template <class Body>
void TraceProbe::each_kept(const Body& body) const {
  if (!record_) return;
  for (int64_t row = std::max<int64_t>(0, first_kept_ - first_); row < count_; ++row) {
    body(row, first_ + row - first_kept_);
  }
}

template <class T>
const T* TraceProbe::forced_row(const std::string& name, int64_t row, int64_t cols) const {
  const TensorEntry& entry = forced_->at(name);
  const Dtype dtype = std::is_same_v<T, float> ? Dtype::f32 : Dtype::i32;
  if (entry.dtype != dtype || entry.shape != Shape{length_, cols}) {
    fail(ErrorKind::bad_input, forced_->path().string(), ": tensor ", name, " is ", dtype_name(entry.dtype),
         " ", shape_text(entry.shape), ", expected ", dtype_name(dtype), " ", shape_text({length_, cols}),
         ": force with a trace of the same prompt made with --keep all");
  }
  return reinterpret_cast<const T*>(forced_->data(entry).data()) + row * cols;
}

void TraceProbe::layer_input(int64_t layer, ops::Ops& ops, ops::Activation x) {
  if (!layerwise_ || layer == 0) return;
  ops.upload(forced_row<float>(layer_name("hidden", layer - 1), first_, x.cols), x);
}

void TraceProbe::layer_output(int64_t layer, ops::Ops& ops, ops::Activation x) {
  TraceTensor& t = tensor(layer_name("hidden", layer), Dtype::f32, x.cols);
  std::vector<float> all(static_cast<size_t>(x.rows * x.cols));
  ops.download(x, all.data());
  each_kept([&](int64_t row, int64_t kept) {
    std::copy_n(all.data() + row * x.cols, x.cols, t.floats.data() + kept * x.cols);
  });
}

void TraceProbe::selection(int64_t layer, ops::Ops& ops, int64_t rows, const ops::Selection& selection) {
  if (layer >= config_.num_hidden_layers) return;  // the MTP layer's lists are the trace's own business
  const int64_t cols = selection.lists.cols;
  const std::string name = layer_name("topk", layer);
  TraceTensor& t = tensor(name, Dtype::i32, cols);
  std::vector<int32_t> lists(static_cast<size_t>(rows * cols));
  std::vector<int32_t> counts(static_cast<size_t>(rows));
  const ops::Ints list_view{selection.lists.data, rows, cols};
  const ops::Ints count_view{selection.count, rows, 1};
  ops.download(list_view, lists.data());
  ops.download(count_view, counts.data());
  each_kept([&](int64_t row, int64_t kept) {
    std::copy_n(lists.data() + row * cols, counts[static_cast<size_t>(row)], t.ints.data() + kept * cols);
  });
  if (forced_ == nullptr) return;
  for (int64_t row = 0; row < count_; ++row) {
    const int32_t* list = forced_row<int32_t>(name, first_ + row, cols);
    const auto count = std::find(list, list + cols, -1) - list;
    for (int64_t i = 0; i < count; ++i) {
      if (list[i] < 0 || list[i] > first_ + row || (i > 0 && list[i] <= list[i - 1])) {
        fail(ErrorKind::bad_input, forced_->path().string(), ": tensor ", name, ", row ", first_ + row,
             ": expected ascending positions up to the row's own, found ", list[i]);
      }
    }
    std::copy_n(list, count, lists.data() + row * cols);
    counts[static_cast<size_t>(row)] = static_cast<int32_t>(count);
  }
  ops.upload(lists.data(), list_view);
  ops.upload(counts.data(), count_view);
}

void TraceProbe::experts_chosen(int64_t layer, ops::Ops& ops, ops::Ints experts) {
  if (layer >= config_.num_hidden_layers) return;
  const std::string name = layer_name("experts", layer);
  TraceTensor& t = tensor(name, Dtype::i32, experts.cols);
  std::vector<int32_t> chosen(static_cast<size_t>(experts.rows * experts.cols));
  ops.download(experts, chosen.data());
  each_kept([&](int64_t row, int64_t kept) {
    std::copy_n(chosen.data() + row * experts.cols, experts.cols, t.ints.data() + kept * experts.cols);
  });
  if (forced_ == nullptr) return;
  const int32_t* forced = forced_row<int32_t>(name, first_, experts.cols);
  for (int64_t i = 0; i < count_ * experts.cols; ++i) {
    if (forced[i] < 0 || forced[i] >= config_.n_routed_experts) {
      fail(ErrorKind::bad_input, forced_->path().string(), ": tensor ", name, ": expert ", forced[i], " of ",
           config_.n_routed_experts);
    }
  }
  ops.upload(forced, {experts.data, count_, experts.cols});
}

void TraceProbe::experts_weighed(int64_t layer, ops::Ops& ops, ops::Ints /*experts*/, ops::Floats weights) {
  if (layer >= config_.num_hidden_layers) return;
  TraceTensor& t = tensor(layer_name("expert_weights", layer), Dtype::f32, weights.cols);
  std::vector<float> values(static_cast<size_t>(weights.rows * weights.cols));
  ops.download(weights, values.data());
  each_kept([&](int64_t row, int64_t kept) {
    std::copy_n(values.data() + row * weights.cols, weights.cols, t.floats.data() + kept * weights.cols);
  });
}

}  // namespace glint
