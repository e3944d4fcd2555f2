#include "quantize/publish.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/index.h"
#include "quantize/manifest.h"
#include "quantize/quant_config.h"
#include "base/digest.h"

namespace glint::quantize {

namespace {

constexpr uintmax_t kSideFileBytesMax = 1U << 28;

/// Writes a file and remembers its name, size and hash.
class Folder {
 public:
  explicit Folder(std::filesystem::path path) : path_(std::move(path)) {}

  void write(const std::string& name, std::string_view bytes) {
    if (bytes.empty()) return;
    write_file_atomically(path_ / name, bytes);
    files.push_back({name, static_cast<int64_t>(bytes.size()), sha256_hex(bytes), 0});
  }

  std::vector<ManifestFile> files;

 private:
  std::filesystem::path path_;
};

std::string index_text(const Plan& plan) {
  std::vector<std::pair<std::string, std::string>> map;
  for (const OutputTensor& tensor : plan.outputs)
    map.emplace_back(tensor.spec.name, plan.shards[tensor.shard].file);
  return checkpoint_index_text(std::move(map), plan.output_counts.total().bytes);
}

void copy_side_files(const std::filesystem::path& source, Folder& folder) {
  std::set<std::string> names;  // in one order on every file system
  for (const auto& entry : std::filesystem::directory_iterator(source)) {
    if (entry.is_regular_file() && is_side_file(entry.path())) names.insert(entry.path().filename().string());
  }
  for (const std::string& name : names) folder.write(name, read_file(source / name));
}

}  // namespace

CodingStats total_stats(const std::vector<CodingStats>& stats) {
  CodingStats total;
  for (const CodingStats& each : stats) total.add(each);
  return total;
}

bool is_side_file(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  static const std::set<std::string> kWritten = {"config.json", "hf_quant_config.json", kManifestName,
                                                 kReportName, Journal::kName};
  if (name.starts_with(".") || name.starts_with("README") || kWritten.count(name) != 0) return false;
  for (const char* ending : {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx",
                             ".index.json", ".partial"}) {
    if (name.ends_with(ending)) return false;
  }
  std::error_code error;
  return std::filesystem::file_size(path, error) <= kSideFileBytesMax && !error;
}

void write_side_files(const Plan& plan, const QuantizeOptions& options, const std::vector<CodingStats>& stats,
                      const Journal& journal, const RunFacts& facts, const std::filesystem::path& path) {
  Folder folder(path);
  for (const OutputShard& shard : plan.shards) {
    const ShardRecord& record = journal.shards().at(shard.file);
    folder.files.push_back(
        {shard.file, record.bytes, record.sha256, static_cast<int64_t>(shard.outputs.size())});
  }
  copy_side_files(options.source, folder);
  folder.write(kReportName, report_text(plan, options, stats));
  folder.write("model.safetensors.index.json", index_text(plan));
  folder.write("hf_quant_config.json", hf_quant_config_text(plan, options));
  folder.write("config.json", output_config_text(plan, options));
  write_file_atomically(path / kManifestName,
                        manifest_text(plan, options, stats, journal, facts, folder.files));
}

}  // namespace glint::quantize
