#include "ops/step_meter.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"

namespace glint::ops {

int64_t StepMemory::scratch_of(std::string_view name) const {
  for (const Operation& operation : operations) {
    if (operation.name == name) return operation.scratch_bytes;
  }
  return 0;
}

StepMemory StepMeter::memory() const {
  StepMemory sorted = memory_;
  std::stable_sort(sorted.operations.begin(), sorted.operations.end(),
                   [](const auto& a, const auto& b) { return a.scratch_bytes > b.scratch_bytes; });
  // Memory that the caller took past this object would be missing from the account.
  GLINT_CHECK(sorted.peak_bytes == inner_.arena().peak_bytes());
  return sorted;
}

void StepMeter::note(int64_t live, int64_t scratch, std::string_view operation) {
  if (live + scratch > memory_.peak_bytes) {
    memory_.peak_bytes = live + scratch;
    memory_.activation_bytes = live;
    memory_.peak_operation = scratch > 0 ? operation : std::string_view();
  }
  if (scratch == 0) return;
  for (StepMemory::Operation& known : memory_.operations) {
    if (known.name != operation) continue;
    known.scratch_bytes = std::max(known.scratch_bytes, scratch);
    return;
  }
  memory_.operations.push_back({operation, scratch});
}

template <class Call>
auto StepMeter::metered(std::string_view name, const Call& call) {
  Arena& arena = inner_.arena();
  GLINT_CHECK(arena.measuring());
  const int64_t before = arena.used_bytes();
  arena.begin_span();
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    note(before, arena.span_peak_bytes() - before, name);
  } else {
    const auto result = call();  // memory that stays taken
    note(arena.used_bytes(), 0, name);
    return result;
  }
}

Activation StepMeter::activation(int64_t rows, int64_t cols) {
  return metered("activation", [&] { return inner_.activation(rows, cols); });
}

Floats StepMeter::floats(int64_t rows, int64_t cols) {
  return metered("floats", [&] { return inner_.floats(rows, cols); });
}

Ints StepMeter::ints(int64_t rows, int64_t cols) {
  return metered("ints", [&] { return inner_.ints(rows, cols); });
}

Activation StepMeter::columns(Activation x, int64_t first, int64_t cols) const {
  return inner_.columns(x, first, cols);
}

void StepMeter::embed(const int32_t* ids, const Weight& table, Activation y) {
  metered("embedding", [&] { inner_.embed(ids, table, y); });
}

void StepMeter::rms_norm(Activation x, const float* weight, float eps, Activation y) {
  metered("norm", [&] { inner_.rms_norm(x, weight, eps, y); });
}

void StepMeter::layer_norm(Activation x, const float* weight, const float* bias, float eps, Activation y) {
  metered("norm", [&] { inner_.layer_norm(x, weight, bias, eps, y); });
}

void StepMeter::linear(Activation x, const Weight& W, Activation y) {
  metered("linear", [&] { inner_.linear(x, W, y); });
}

void StepMeter::linear(Activation x, const Weight& W, Floats y) {
  metered("linear", [&] { inner_.linear(x, W, y); });
}

void StepMeter::rope(Activation x, int64_t heads, int64_t head_dim, int64_t first, int64_t dim, double theta,
                     RopePairs pairs, const int32_t* position) {
  metered("rope", [&] { inner_.rope(x, heads, head_dim, first, dim, theta, pairs, position); });
}

void StepMeter::absorb_query(Activation q, const Weight& kv_b, int64_t heads, int64_t nope, int64_t rope,
                             int64_t v, Activation y) {
  metered("absorbed query", [&] { inner_.absorb_query(q, kv_b, heads, nope, rope, v, y); });
}

void StepMeter::expand_value(Activation o, const Weight& kv_b, int64_t heads, int64_t nope, int64_t v,
                             Activation y) {
  metered("expanded value", [&] { inner_.expand_value(o, kv_b, heads, nope, v, y); });
}

void StepMeter::write_cache(Activation x, const RowMap& rows, const CacheLayer& cache) {
  metered("cache write", [&] { inner_.write_cache(x, rows, cache); });
}

void StepMeter::select(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys,
                       int64_t heads, int64_t topk, Selection out) {
  metered("indexer", [&] { inner_.select(q, w, scale, rows, keys, heads, topk, out); });
}

void StepMeter::sparse_attention(Activation q, const RowMap& rows, const Selection& selection,
                                 const CacheLayer& cache, int64_t heads, int64_t kv_lora, float scale,
                                 Activation o) {
  metered("sparse attention",
          [&] { inner_.sparse_attention(q, rows, selection, cache, heads, kv_lora, scale, o); });
}

void StepMeter::swiglu(Activation gate, Activation up, Activation y) {
  metered("swiglu", [&] { inner_.swiglu(gate, up, y); });
}

void StepMeter::choose_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts) {
  metered("router", [&] { inner_.choose_experts(logits, bias, params, experts); });
}

void StepMeter::weigh_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts,
                              Floats weights) {
  metered("router", [&] { inner_.weigh_experts(logits, bias, params, experts, weights); });
}

void StepMeter::experts(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                        Floats y) {
  metered("routed experts", [&] { inner_.experts(x, experts, weights, table, y); });
}

void StepMeter::add(Floats y, Floats x) {
  metered("add", [&] { inner_.add(y, x); });
}

void StepMeter::add(Floats y, Activation x) {
  metered("add", [&] { inner_.add(y, x); });
}

void StepMeter::add(Activation y, Activation x) {
  metered("add", [&] { inner_.add(y, x); });
}

void StepMeter::copy(Activation x, Activation y) {
  metered("copy", [&] { inner_.copy(x, y); });
}

void StepMeter::gather_rows(Activation x, const int32_t* rows, Activation y) {
  metered("gather", [&] { inner_.gather_rows(x, rows, y); });
}

void StepMeter::gather_selection(const Selection& x, const int32_t* rows, const Selection& y) {
  metered("gather", [&] { inner_.gather_selection(x, rows, y); });
}

void StepMeter::download(Activation x, float* out) {
  inner_.download(x, out);
}

void StepMeter::upload(const float* in, Activation x) {
  inner_.upload(in, x);
}

void StepMeter::download(Floats x, float* out) {
  inner_.download(x, out);
}

void StepMeter::download(Ints x, int32_t* out) {
  inner_.download(x, out);
}

void StepMeter::upload(const int32_t* in, Ints x) {
  inner_.upload(in, x);
}

}  // namespace glint::ops
