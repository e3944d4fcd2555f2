#include "engine/cuda_device.h"

#include <algorithm>
#include <cstring>

#include "base/integers.h"
#include "engine/cpu_device.h"

namespace glint {

namespace {

constexpr int kRowArrays = 5;  // tokens, positions, sequences, logits rows, source
constexpr int kCounts = 64;    // behind them: the number of rows that were given, and room; then the pages

DeviceOptions completed(DeviceOptions options, const ModelConfig& config) {
  if (options.context_max == 0) options.context_max = config.max_position_embeddings;
  if (!options.kv_cache_dtype) options.kv_cache_dtype = default_kv_cache_dtype(options.dtype);
  return options;
}

ops::cuda::CudaOptions completed(ops::cuda::CudaOptions cuda, const DeviceOptions& options,
                                 const ops::cuda::CountedRouters& counted) {
  cuda.counted = &counted;
  if (options.indexer_scratch_bytes > 0) cuda.limits.indexer_scratch_bytes = options.indexer_scratch_bytes;
  return cuda;
}

int64_t planned_bytes(const Model& model, const DeviceOptions& options, const ops::cuda::CudaOptions& cuda) {
  ops::Arena arena;
  const ops::cuda::ExpertTables none;
  const auto ops = ops::cuda::make_cuda_ops(options.dtype, arena, none, cuda, nullptr);
  DeviceOptions rounded = options;
  rounded.context_max = ceil_div(options.context_max, ops::kPageTokens) * ops::kPageTokens;
  return planned_step(model, rounded, *ops).peak_bytes;
}

int current_device() {
  int device = 0;
  ops::cuda::check(cudaGetDevice(&device), "asking for the device");
  return device;
}

/// Why there is no device, in words that say what to install.
std::string why_none(cudaError_t status) {
  if (status == cudaSuccess) return "none found";
  int driver = 0;  // 0: there is none
  if (status != cudaErrorInsufficientDriver || cudaDriverGetVersion(&driver) != cudaSuccess) {
    return cudaGetErrorString(status);
  }
  const auto version = [](int number) { return cat(number / 1000, ".", number % 1000 / 10); };
  if (driver == 0) return "no NVIDIA driver is installed";
  return cat("its driver is for CUDA ", version(driver), ", this program needs ", version(CUDART_VERSION));
}

}  // namespace

DeviceMemory choose_cuda_device(int ordinal) {
  const std::string flag = cat("argument --device: cuda:", ordinal, ": ");
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    fail(ErrorKind::unsupported, flag, "this machine has no usable CUDA device (", why_none(status),
         "); use --device cpu");
  }
  if (ordinal >= count) {
    fail(ErrorKind::unsupported, flag, "this machine has ", count, " CUDA device", count == 1 ? "" : "s",
         ", the first is cuda:0");
  }
  ops::cuda::check(cudaSetDevice(ordinal), "choosing the device");
  cudaDeviceProp properties{};
  ops::cuda::check(cudaGetDeviceProperties(&properties, ordinal), "asking for the device's properties");
  try {
    ops::cuda::prepare_kernels();
  } catch (const Error&) {
    fail(ErrorKind::unsupported, flag, properties.name, " has compute capability ", properties.major, ".",
         properties.minor, ", for which this program has no code");
  }
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ops::cuda::check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for the device's memory");
  DeviceMemory memory;
  memory.kind = DeviceKind::gpu;
  memory.name = properties.name;
  memory.count = 1;
  memory.total_bytes = static_cast<int64_t>(total_bytes);
  memory.free_bytes = static_cast<int64_t>(free_bytes);
  memory.compute_capability = properties.major * 10 + properties.minor;
  memory.ordinal = ordinal;
  return memory;
}

CudaCache::CudaCache(const ModelConfig& config, KvCacheDType dtype, int64_t pages)
    : layout_(cache_layout(config, dtype)),
      device_(current_device()),
      slab_("cache", pages * layout_.page_bytes),
      views_(cache_views(config, layout_, slab_.data())) {
  // Rows that nothing was written to are never looked at, but may be loaded beside others.
  ops::cuda::check(cudaMemset(slab_.data(), 0, static_cast<size_t>(pages * layout_.page_bytes)),
                   "clearing the cache");
}

void CudaCache::copy_out(int32_t page, std::byte* out) const {
  const std::lock_guard lock(mutex_);
  ops::cuda::check(cudaSetDevice(device_), "choosing the device");
  ops::cuda::check(
      cudaMemcpyAsync(out, slab_.data() + page * layout_.page_bytes, static_cast<size_t>(layout_.page_bytes),
                      cudaMemcpyDeviceToHost, stream_.get()),
      "copying a page");
  stream_.wait();
}

void CudaCache::copy_in(int32_t page, const std::byte* bytes) {
  const std::lock_guard lock(mutex_);
  ops::cuda::check(cudaSetDevice(device_), "choosing the device");
  ops::cuda::check(
      cudaMemcpyAsync(slab_.data() + page * layout_.page_bytes, bytes,
                      static_cast<size_t>(layout_.page_bytes), cudaMemcpyHostToDevice, stream_.get()),
      "copying a page");
  stream_.wait();
}

CudaDevice::CudaDevice(std::shared_ptr<const CudaWeights> weights, const DeviceOptions& options,
                       const ops::cuda::CudaOptions& cuda_options)
    : weights_(std::move(weights)),
      options_(completed(options, weights_->model()->config())),
      cuda_options_(completed(cuda_options, options_, counted_)),
      ordinal_(current_device()),
      step_bytes_(std::max(options_.step_bytes, planned_bytes(*weights_->model(), options_, cuda_options_))),
      slab_("step memory", step_bytes_),
      arena_(slab_.data(), step_bytes_),
      cache_(cached_config(weights_->model()->config(), options_.with_mtp), *options_.kv_cache_dtype,
             options_.pages),
      ops_(
          ops::cuda::make_cuda_ops(options_.dtype, arena_, weights_->tables(), cuda_options_, stream_.get())),
      page_numbers_max_((options_.drafting_max > 0 ? options_.drafting_max : options_.rows_max) *
                        ceil_div(options_.context_max, ops::kPageTokens)),
      host_step_((kRowArrays * options_.rows_max + kCounts + page_numbers_max_) * 4),
      device_step_("step description", (kRowArrays * options_.rows_max + kCounts + page_numbers_max_) * 4) {
  ops::cuda::check(cudaMemset(slab_.data(), 0, static_cast<size_t>(step_bytes_)), "clearing the step memory");
}

int64_t CudaDevice::context_limit() const {
  return ceil_div(options_.context_max, ops::kPageTokens) * ops::kPageTokens;
}

int64_t CudaDevice::rounded_context(int64_t context) const {
  int64_t rounded = 1024;
  while (rounded < context) rounded *= 2;
  return std::min(rounded, context_limit());
}

Step CudaDevice::place(const StepDescription& d) {
  return place(d, static_cast<int64_t>(d.tokens.size()), static_cast<int64_t>(d.logits_rows.size()),
               rounded_context(d.context_max));
}

Step CudaDevice::place(const StepDescription& d, const Shape& shape) {
  GLINT_CHECK(d.logits_rows.size() == d.tokens.size() && !d.tokens.empty());
  GLINT_CHECK(static_cast<int64_t>(d.tokens.size()) <= shape.rows && d.context_max <= shape.context);
  return place(d, shape.rows, shape.rows, shape.context);
}

Step CudaDevice::place(const StepDescription& d, int64_t rows, int64_t logits, int64_t context) {
  const int64_t stride = ceil_div(context, ops::kPageTokens);
  const int64_t sequences = d.pages_stride == 0 ? 0 : static_cast<int64_t>(d.pages.size()) / d.pages_stride;
  GLINT_CHECK(rows <= options_.rows_max && logits <= options_.rows_max);
  GLINT_CHECK(sequences * stride <= page_numbers_max_);
  // What the host wrote before has arrived when its step ended; executors wait for that.
  auto* host = reinterpret_cast<int32_t*>(host_step_.data());
  auto* device = reinterpret_cast<int32_t*>(device_step_.data());
  const int64_t row_max = options_.rows_max;
  const auto put = [&](const std::vector<int32_t>& values, int64_t count, int64_t array) {
    int32_t* const end = std::copy(values.begin(), values.end(), host + array * row_max);
    if (!values.empty()) std::fill(end, host + array * row_max + count, values.back());
  };
  put(d.tokens, rows, 0);
  put(d.positions, rows, 1);
  put(d.sequences, rows, 2);
  put(d.logits_rows, logits, 3);
  host[kRowArrays * row_max] = static_cast<int32_t>(d.tokens.size());
  const int64_t first_page = kRowArrays * row_max + kCounts;
  int32_t* pages = host + first_page;
  const int64_t copied = std::min(stride, d.pages_stride);
  for (int64_t s = 0; s < sequences; ++s) {
    std::copy_n(d.pages.begin() + s * d.pages_stride, copied, pages + s * stride);
    std::fill_n(pages + s * stride + copied, stride - copied, -1);
  }
  const auto send = [&](int64_t first, int64_t count) {
    ops::cuda::check(cudaMemcpyAsync(device + first, host + first, static_cast<size_t>(count) * 4,
                                     cudaMemcpyHostToDevice, stream_.get()),
                     "copying a step");
  };
  // Few rows go in one copy, many in one an array.
  if (row_max <= 4096) {
    send(0, first_page + sequences * stride);
  } else {
    for (int64_t array = 0; array < 4; ++array) send(array * row_max, array == 3 ? logits : rows);
    send(kRowArrays * row_max, kCounts + sequences * stride);
  }
  return {.tokens = device,
          .rows = {.rows = rows,
                   .position = device + row_max,
                   .sequence = device + 2 * row_max,
                   .pages = device + first_page,
                   .pages_stride = stride,
                   .context_max = context},
          .logits_rows = device + 3 * row_max,
          .logits_count = logits};
}

void CudaDevice::count_choices(std::unordered_map<const float*, uint32_t*> counts) {
  counted_.counts = std::move(counts);
  count_rows(nullptr);
}

void CudaDevice::count_rows(const int32_t* rows) {
  const auto* placed = reinterpret_cast<const int32_t*>(device_step_.data()) + kRowArrays * options_.rows_max;
  counted_.rows = rows != nullptr ? rows : placed;
}

const int32_t* CudaDevice::place_source(const std::vector<int32_t>& rows) {
  GLINT_CHECK(static_cast<int64_t>(rows.size()) <= options_.rows_max);
  auto* host = reinterpret_cast<int32_t*>(host_step_.data()) + 4 * options_.rows_max;
  auto* device = reinterpret_cast<int32_t*>(device_step_.data()) + 4 * options_.rows_max;
  std::copy(rows.begin(), rows.end(), host);
  ops::cuda::check(cudaMemcpyAsync(device, host, rows.size() * 4, cudaMemcpyHostToDevice, stream_.get()),
                   "copying a step");
  return device;
}

}  // namespace glint
