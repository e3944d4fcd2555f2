// Peak memory of a conversion of the published model, without its bytes: the plan of all 282 shards, the
// bytes of the first ones (holes, so zeros) read, coded and discarded.
//
//     glint-quantize-simulation FOLDER SHARDS WORKERS
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "quantize/converter.h"
#include "sparse_source.h"

int main(int argc, char** argv) {
  using namespace glint::quantize;
  if (argc != 4) {
    std::fprintf(stderr, "usage: glint-quantize-simulation FOLDER SHARDS WORKERS\n");
    return 2;
  }
  QuantizeOptions options;
  options.source = argv[1];
  options.out = options.source / "out";
  options.workers = std::atoi(argv[3]);
  write_sparse_source(std::filesystem::path(GLINT_TEST_DATA) / "glm-5.3-config.json", options.source);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const Plan plan = make_plan(options);
  std::printf("%splanned in %.1f s\n", plan_text(plan, options).c_str(), seconds());
  Converter converter(options, plan, nullptr, {{}, static_cast<size_t>(std::atoi(argv[2])), {}, {}});
  converter.run();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "%s of %zu shards read: %.1f GB in %.1f s; buffers %.2f GB at most, of %.2f GB planned; peak RSS %.2f "
      "GB\n",
      argv[2], plan.files.size(), static_cast<double>(converter.bytes_read()) / 1e9, seconds(),
      static_cast<double>(converter.peak_buffer_bytes()) / 1e9,
      static_cast<double>(plan.memory_bytes()) / 1e9, static_cast<double>(usage.ru_maxrss) * 1024 / 1e9);
  return usage.ru_maxrss < (4 << 20) ? 0 : 1;
}
