#include "engine/trace.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "engine/trace_probe.h"

namespace glint {

namespace {

constexpr int64_t kDecoded = 12;  // positions of decode_logits
constexpr int64_t kDrafts = 5;    // steps of the MTP layer

/// A prompt, a sequence of pages and a device: steps over ranges of rows.
class Tracer {
 public:
  Tracer(const std::shared_ptr<const Model>& model, const TraceSettings& options)
      : options_(options),
        config_(model->config()),
        length_(static_cast<int64_t>(options.input_ids.size())),
        device_(make_device(model, options, device_options(options, length_))) {
    const int64_t pages = (length_ + kDrafts + ops::kPageTokens) / ops::kPageTokens;
    pages_.resize(static_cast<size_t>(pages));
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  [[nodiscard]] int64_t length() const { return length_; }
  [[nodiscard]] ops::Ops& ops() { return device_->ops(); }

  /// Rows [first, first + count): calls receive(result) while the step's memory lives. All rows' logits are
  /// made.
  template <class Receive>
  void step(int64_t first, int64_t count, Probe* probe, const Receive& receive) {
    const ops::Arena::Scope scope(device_->arena());
    const StepDescription rows = describe(options_.input_ids.data() + first, first, count);
    receive(device_->model().forward(ops(), device_->place(rows), device_->caches(), probe));
  }

  void draft(const std::vector<float>& final_hidden, int32_t first_token, TraceTensors& out);

 private:
  /// A step over adjacent positions of one sequence.
  [[nodiscard]] StepDescription describe(const int32_t* tokens, int64_t first, int64_t count) const {
    StepDescription rows;
    rows.tokens.assign(tokens, tokens + count);
    rows.positions.resize(static_cast<size_t>(count));
    std::iota(rows.positions.begin(), rows.positions.end(), static_cast<int32_t>(first));
    rows.sequences.assign(static_cast<size_t>(count), 0);
    rows.pages = pages_;
    rows.pages_stride = static_cast<int64_t>(pages_.size());
    rows.context_max = first + count;
    rows.logits_rows.resize(static_cast<size_t>(count));
    std::iota(rows.logits_rows.begin(), rows.logits_rows.end(), 0);
    return rows;
  }

  static std::unique_ptr<StepDevice> make_device(const std::shared_ptr<const Model>& model,
                                                 const TraceSettings& options, const DeviceOptions& device) {
    if (options.make_device) return options.make_device(model, device);
    return std::make_unique<CpuDevice>(model, device);
  }

  static DeviceOptions device_options(const TraceSettings& options, int64_t length) {
    const int64_t rows = options.chunk == 0 ? length : std::min(options.chunk, length);
    const bool exact = options.dtype == ops::ComputeDType::float32;
    const KvCacheDType own = exact ? KvCacheDType::float32 : KvCacheDType::bfloat16_keys;
    return {.dtype = options.dtype,
            .kv_cache_dtype = options.kv_cache_dtype.value_or(own),
            .isa = options.isa,
            .threads = options.threads,
            .rows_max = rows,
            .logits_max = rows,
            .context_max = length + kDrafts,
            .pages = (length + kDrafts + ops::kPageTokens) / ops::kPageTokens,
            .with_mtp = options.mtp};
  }

  const TraceSettings& options_;
  const ModelConfig& config_;
  int64_t length_;
  std::unique_ptr<StepDevice> device_;
  std::vector<int32_t> pages_;
};

int32_t argmax(const float* values, int64_t count) {
  return static_cast<int32_t>(std::max_element(values, values + count) - values);
}

void Tracer::draft(const std::vector<float>& final_hidden, int32_t first_token, TraceTensors& out) {
  const int64_t vocab = config_.vocab_size;
  TraceTensor& logits = out["mtp_logits"];
  TraceTensor& tokens = out["mtp_tokens"];
  TraceTensor& topk = out["mtp_topk"];
  logits.shape = {kDrafts, vocab};
  tokens.dtype = topk.dtype = Dtype::i32;
  tokens.shape = {kDrafts + 1};
  tokens.ints = {first_token};

  // Every prompt row first: position p takes the token at p + 1.
  std::vector<int32_t> shifted(options_.input_ids.begin() + 1, options_.input_ids.end());
  shifted.push_back(first_token);
  std::vector<float> carried(static_cast<size_t>(config_.hidden_size));
  // The last row of a pass.
  const auto take = [&](const StepResult& result) {
    const auto hidden = static_cast<size_t>(config_.hidden_size);
    std::vector<float> rows(static_cast<size_t>(result.final_hidden.rows) * hidden);
    ops().download(result.final_hidden, rows.data());
    std::copy(rows.end() - config_.hidden_size, rows.end(), carried.begin());
    std::vector<float> values(static_cast<size_t>(result.logits.rows * vocab));
    ops().download(result.logits, values.data());
    logits.floats.insert(logits.floats.end(), values.end() - vocab, values.end());
    tokens.ints.push_back(argmax(&*(values.end() - vocab), vocab));
  };
  const int64_t chunk = options_.chunk == 0 ? length_ : options_.chunk;
  for (int64_t first = 0; first < length_; first += chunk) {
    const int64_t count = std::min(chunk, length_ - first);
    const ops::Arena::Scope scope(device_->arena());
    const StepDescription rows = describe(shifted.data() + first, first, count);
    const ops::Activation previous = ops().activation(count, config_.hidden_size);
    ops().upload(final_hidden.data() + first * config_.hidden_size, previous);
    ops::Selection chosen;
    const StepResult result = device_->model().forward_mtp(ops(), device_->place(rows), previous,
                                                           device_->caches(), nullptr, &chosen);
    if (first + count < length_) continue;
    take(result);
    std::vector<int32_t> counts(static_cast<size_t>(count));
    std::vector<int32_t> lists(static_cast<size_t>(count * chosen.lists.cols));
    ops().download(ops::Ints{chosen.count, count, 1}, counts.data());
    ops().download(ops::Ints{chosen.lists.data, count, chosen.lists.cols}, lists.data());
    const auto list = lists.end() - chosen.lists.cols;
    topk.ints.assign(list, list + counts.back());
  }
  topk.shape = {static_cast<int64_t>(topk.ints.size())};

  // Later steps: one row each, at the next position, attending to the first step's list alone.
  const auto list_size = static_cast<int32_t>(topk.ints.size());
  for (int64_t draft_step = 1; draft_step < kDrafts; ++draft_step) {
    const ops::Arena::Scope scope(device_->arena());
    const StepDescription rows = describe(&tokens.ints.back(), length_ - 1 + draft_step, 1);
    const ops::Activation previous = ops().activation(1, config_.hidden_size);
    ops().upload(carried.data(), previous);
    const ops::Selection given{.lists = ops().ints(1, list_size), .count = ops().ints(1, 1).data};
    ops().upload(topk.ints.data(), given.lists);
    ops().upload(&list_size, ops::Ints{given.count, 1, 1});
    const ops::Selection* const lists = config_.index_share_for_mtp_iteration ? &given : nullptr;
    take(device_->model().forward_mtp(ops(), device_->place(rows), previous, device_->caches(), lists,
                                      nullptr));
  }
}

void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size) {
  if (ids.empty()) fail(ErrorKind::bad_input, "input_ids: empty, expected at least one token id");
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      fail(ErrorKind::bad_input, "input_ids: ", id, " is outside the vocabulary of ", vocab_size);
    }
  }
}

}  // namespace

TraceTensors run_trace(std::shared_ptr<const Model> model, const TraceSettings& options) {
  const ModelConfig& config = model->config();
  check_ids(options.input_ids, config.vocab_size);
  if (options.mtp && !config.has_mtp())
    fail(ErrorKind::unsupported, "--mtp: this checkpoint has no MTP layer");
  if (options.layerwise && !options.force) fail(ErrorKind::bad_input, "--layerwise needs --force TRACE");
  std::optional<SafetensorsFile> forced;
  if (options.force) {
    forced.emplace(*options.force);
    if (read_input_ids(*options.force) != options.input_ids) {
      fail(ErrorKind::bad_input, options.force->string(), ": its input_ids are not this prompt");
    }
  }

  Tracer tracer(model, options);
  const int64_t length = tracer.length();
  const int64_t kept = options.keep == 0 ? length : std::min(options.keep, length);
  TraceTensors out;
  TraceProbe probe(config, length, length - kept, out, forced ? &*forced : nullptr, options.layerwise);
  std::vector<float> final_hidden(static_cast<size_t>(length * config.hidden_size));
  TraceTensor& logits = out["logits"];
  logits.shape = {kept, config.vocab_size};

  const int64_t chunk = options.chunk == 0 ? length : options.chunk;
  for (int64_t first = 0; first < length; first += chunk) {
    const int64_t count = std::min(chunk, length - first);
    probe.begin_step(first, count, true);
    tracer.step(first, count, &probe, [&](const StepResult& result) {
      tracer.ops().download(result.final_hidden, final_hidden.data() + first * config.hidden_size);
      std::vector<float> all(static_cast<size_t>(count * config.vocab_size));
      tracer.ops().download(result.logits, all.data());
      const int64_t skipped = std::clamp<int64_t>(length - kept - first, 0, count);
      logits.floats.insert(logits.floats.end(), all.begin() + skipped * config.vocab_size, all.end());
    });
  }

  // The last positions again, through a cache that holds only what came before them.
  const int64_t decoded = std::min(kDecoded, length - 1);
  if (decoded > 0) {
    TraceTensor& decode_logits = out["decode_logits"];
    decode_logits.shape = {decoded, config.vocab_size};
    Tracer again(model, options);
    const auto one_step = [&](int64_t first, int64_t count, bool keep_logits) {
      probe.begin_step(first, count, false);
      again.step(first, count, &probe, [&](const StepResult& result) {
        if (!keep_logits) return;
        std::vector<float> values(static_cast<size_t>(config.vocab_size));
        again.ops().download(result.logits, values.data());
        decode_logits.floats.insert(decode_logits.floats.end(), values.begin(), values.end());
      });
    };
    const int64_t prompt = length - decoded;
    for (int64_t first = 0; first < prompt; first += chunk)
      one_step(first, std::min(chunk, prompt - first), false);
    for (int64_t row = prompt; row < length; ++row) one_step(row, 1, true);
  }

  if (options.mtp) {
    const float* last = logits.floats.data() + (kept - 1) * config.vocab_size;
    tracer.draft(final_hidden, argmax(last, config.vocab_size), out);
  }
  out["final_hidden"] = {.dtype = Dtype::f32,
                         .shape = {length, config.hidden_size},
                         .floats = std::move(final_hidden),
                         .ints = {}};
  out["input_ids"] = {.dtype = Dtype::i32, .shape = {length}, .floats = {}, .ints = options.input_ids};
  return out;
}

void write_trace(const std::filesystem::path& path, const TraceTensors& tensors) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(path, specs);
  size_t index = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype == Dtype::f32) {
      writer.write<float>(index, 0, tensor.floats);
    } else {
      writer.write<int32_t>(index, 0, tensor.ints);
    }
    ++index;
  }
  writer.finish();
}

std::vector<int32_t> read_input_ids(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const TensorEntry& entry = file.at("input_ids");
  if (entry.dtype != Dtype::i32 || entry.shape.size() != 1) {
    fail(ErrorKind::bad_input, path.string(), ": tensor input_ids is ", dtype_name(entry.dtype), " ",
         shape_text(entry.shape), ", expected I32 with one dimension");
  }
  std::vector<int32_t> ids(static_cast<size_t>(entry.shape[0]));
  const auto bytes = file.data(entry);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(ids.data()));
  return ids;
}

}  // namespace glint
