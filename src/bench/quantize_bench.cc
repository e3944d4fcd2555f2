#include "bench/quantize_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "bench/timing.h"
#include "checkpoint/make_checkpoint.h"
#include "quantize/codec.h"
#include "quantize/coder.h"
#include "quantize/quantize.h"
#include "quantize/read_ahead.h"

namespace glint::bench {

namespace {

namespace fs = std::filesystem;
using quantize::kBlock;

constexpr int64_t kTensorWeights = 2048 * 6144;
constexpr int64_t kTensors = 16;  // 400 MB: past any cache
constexpr int64_t kCachedWeights = 1 << 16;

/// BF16 weights of about a normal distribution, from sums of bytes of a counter's hash.
std::vector<uint16_t> make_weights(int64_t count) {
  std::vector<uint16_t> weights(static_cast<size_t>(count));
  uint64_t state = 1;
  for (uint16_t& weight : weights) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    uint64_t mixed = state ^ (state >> 29);
    int sum = -4 * 255 / 2;
    for (int i = 0; i < 4; ++i, mixed >>= 8) sum += static_cast<int>(mixed & 0xFFU);
    const float value = static_cast<float>(sum) * 1.4e-4F;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    weight = static_cast<uint16_t>(bits >> 16);
  }
  return weights;
}

/// One way to treat blocks of weights.
struct CodingRun {
  const char* name;
  std::function<void(const uint16_t* weights, int64_t blocks)> body;
};

/// Median weights per second of `body` over the set in pieces that stay in the cache between passes.
double rate_of(const std::vector<uint16_t>& weights, int rounds, const CodingRun& run) {
  constexpr int64_t kPiece = 8192 * kBlock;
  std::vector<double> seconds;
  const auto count = static_cast<int64_t>(weights.size());
  for (int round = 0; round < rounds; ++round) {
    seconds.push_back(time_of([&] {
      for (int64_t first = 0; first < count; first += kPiece) {
        run.body(weights.data() + first, std::min(kPiece, count - first) / kBlock);
      }
    }));
  }
  return static_cast<double>(count) / median(seconds);
}

void bench_set(const std::vector<uint16_t>& weights, const std::string& group,
               const QuantizeBenchOptions& options, int rounds, Report& report) {
  const quantize::Codec& codec = quantize::codec(options.isa);
  std::vector<uint16_t> amax(8192);
  std::vector<uint8_t> scales(8192);
  const auto count = static_cast<int64_t>(weights.size());
  std::vector<uint16_t> copy(weights.size());
  std::vector<uint8_t> packed(weights.size() / 2);
  const uint16_t* const begin = weights.data();
  const float global = quantize::global_scale_of(0.0714F, quantize::GlobalScale::exact);
  const quantize::Nvfp4Tables tables = quantize::make_nvfp4_tables(global);
  const auto out = [&](const uint16_t* in) { return packed.data() + (in - begin) / 2; };
  const auto code = [&](const uint16_t* in, int64_t blocks) {
    codec.max_scales(amax.data(), blocks, tables, scales.data());
    codec.encode(in, blocks, tables, scales.data(), out(in));
  };
  const double copied = rate_of(weights, rounds, {"copy", [&](const uint16_t* in, int64_t blocks) {
                                                    std::memcpy(copy.data() + (in - begin), in,
                                                                static_cast<size_t>(blocks * 2 * kBlock));
                                                  }});
  report.add({group, "memcpy of the same weights", static_cast<double>(count) / copied, copied / 1e9, 0,
              "Gw/s", ""});
  codec.block_amax(begin, std::min<int64_t>(8192, count / kBlock), amax.data());
  const std::vector<CodingRun> runs = {
      {"maximum search",
       [&](const uint16_t* in, int64_t blocks) { codec.block_amax(in, blocks, amax.data()); }},
      {"coding (scales and codes, maxima known)", code},
      {"maximum search and coding",
       [&](const uint16_t* in, int64_t blocks) {
         codec.block_amax(in, blocks, amax.data());
         code(in, blocks);
       }},
      {"maximum search, coding and error sums",
       [&](const uint16_t* in, int64_t blocks) {
         codec.block_amax(in, blocks, amax.data());
         codec.max_scales(amax.data(), blocks, tables, scales.data());
         codec.encode_with_error(in, blocks, tables, scales.data(), out(in));
       }},
  };
  for (const CodingRun& run : runs) {
    const double rate = rate_of(weights, rounds, run);
    report.add(
        {group, run.name, static_cast<double>(count) / rate, rate / 1e9, copied / 1e9, "Gw/s", "copy"});
  }
  const std::vector<uint16_t> part(weights.begin(), weights.begin() + kCachedWeights);
  const double searched =
      rate_of(part, rounds, {"search", [&](const uint16_t* in, int64_t blocks) {
                               codec.block_amax(in, blocks, amax.data());
                               codec.max_scales(amax.data(), blocks, tables, scales.data());
                               codec.search_scales(in, blocks, tables, scales.data());
                             }});
  report.add({group, "search by squared error alone", 0, searched / 1e9, 0, "Gw/s", ""});
}

[[noreturn]] void fail_with_errno(const fs::path& path, const char* verb) {
  fail(ErrorKind::io, path.string(), ": cannot ", verb, ": ", std::strerror(errno));
}

/// Takes the files out of the page cache.
void make_cold(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int descriptor = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) continue;
    ::fdatasync(descriptor);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }
}

/// Runs body(i) for i in [0, count) on `threads` threads.
void spread(size_t count, int threads, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back([&] {
      try {
        for (size_t item = next++; item < count; item = next++) body(item);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
}

void read_plainly(const quantize::Plan& plan, const fs::path& source) {
  quantize::BufferPool pool;
  spread(plan.files.size(), plan.workers, [&](size_t number) {
    const quantize::SourceFile& file = plan.files[number];
    const quantize::SourceReader reader(source / file.name, file.bytes, file.modified_ns);
    std::vector<quantize::Segment> segments;
    for (int64_t begin = 0; begin < file.bytes; begin += quantize::kPieceBytes) {
      segments.push_back({0, begin, std::min(quantize::kPieceBytes, file.bytes - begin), {}});
    }
    quantize::ReadAhead ahead(reader, pool, std::move(segments), quantize::kReadAheadBytes);
    quantize::Segment segment;
    while (ahead.next(segment)) {
    }
  });
}

/// Files of the output's sizes (to whole pages), direct, flushed.
void write_plainly(const quantize::Plan& plan, const fs::path& folder) {
  fs::create_directories(folder);
  quantize::BufferPool pool;
  const quantize::Buffer bytes = pool.take(quantize::kPieceBytes);
  std::memset(bytes.data(), 0x5A, static_cast<size_t>(quantize::kPieceBytes));
  spread(plan.shards.size(), plan.workers, [&](size_t number) {
    const fs::path path = folder / plan.shards[number].file;
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0644);
    if (descriptor < 0) fail_with_errno(path, "create");
    const int64_t size = (plan.shards[number].bytes + 4095) / 4096 * 4096;
    (void)::posix_fallocate(descriptor, 0, size);
    for (int64_t place = 0; place < size;) {
      const auto count = static_cast<size_t>(std::min(quantize::kPieceBytes, size - place));
      const ssize_t done = ::pwrite(descriptor, bytes.data(), count, place);
      if (done < 0) fail_with_errno(path, "write");
      place += done;
    }
    if (::fdatasync(descriptor) != 0) fail_with_errno(path, "flush");
    ::close(descriptor);
  });
}

void make_source(const QuantizeBenchOptions& options, const fs::path& source) {
  if (fs::exists(source / "config.json")) return;
  MakeCheckpointOptions made;
  made.config_text = read_file(options.config);
  made.config_name = options.config.string();
  made.seed = 1;
  made.folder = source;
  made.shard_bytes = 500'000'000;
  make_checkpoint(made);
}

}  // namespace

void bench_coding(const QuantizeBenchOptions& options, Report& report) {
  const std::vector<uint16_t> weights = make_weights(kTensorWeights * kTensors);
  bench_set({weights.begin(), weights.begin() + kCachedWeights}, "one core, weights in the cache", options,
            200 * options.rounds, report);
  bench_set(weights, "one core, weights in memory", options, options.rounds, report);
}

void bench_conversion(const QuantizeBenchOptions& options, Report& report) {
  const fs::path source = options.folder / "quantize-source";
  const fs::path out = options.folder / "quantize-out";
  make_source(options, source);
  quantize::QuantizeOptions conversion;
  conversion.source = source;
  conversion.out = out;
  conversion.workers = options.workers;
  conversion.isa = options.isa;
  const quantize::Plan plan = quantize::make_plan(conversion);
  std::vector<double> reads;
  std::vector<double> writes;
  std::vector<double> conversions;
  for (int round = 0; round < options.rounds; ++round) {
    fs::remove_all(out);
    fs::remove_all(quantize::staging_folder(out));
    make_cold(source);
    reads.push_back(time_of([&] { read_plainly(plan, source); }));
    writes.push_back(time_of([&] { write_plainly(plan, out); }));
    fs::remove_all(out);
    make_cold(source);
    ::sync();
    conversions.push_back(time_of([&] { quantize::quantize(conversion, plan, {}); }));
    fs::remove_all(out);
  }
  const auto in = static_cast<double>(plan.source_bytes());
  const auto both = in + static_cast<double>(plan.output_bytes());
  const double plain = median(reads) + median(writes);
  const std::string group = cat("conversion, ", plan.workers, " workers");
  report.add(
      {group, "plain O_DIRECT read of the source", median(reads), in / median(reads) / 1e9, 0, "GB/s", ""});
  report.add({group, "plain write and fdatasync of the output", median(writes),
              (both - in) / median(writes) / 1e9, 0, "GB/s", ""});
  report.add({group, "conversion with hashes and manifest", median(conversions),
              both / median(conversions) / 1e9, both / plain / 1e9, "GB/s", "plain read, then write"});
}

}  // namespace glint::bench
