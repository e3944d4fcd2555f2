// What the tests of conversions share: stand-ins to convert, and folders to compare.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/make_checkpoint.h"
#include "checkpoint/stored_copy.h"
#include "quantize/publish.h"
#include "quantize/quantize.h"
#include "support/temp_folder.h"

namespace glint::quantize {

struct Stored {
  Dtype dtype;
  Shape shape;
  std::string bytes;

  bool operator==(const Stored&) const = default;
};

/// All tensors of a folder by name.
inline std::map<std::string, Stored> stored_tensors_of(const std::filesystem::path& folder) {
  std::map<std::string, Stored> tensors;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile file(entry.path());
    for (const TensorEntry& tensor : file.table().tensors()) {
      const auto data = file.data(tensor);
      const auto* const text = static_cast<const char*>(static_cast<const void*>(data.data()));
      tensors[tensor.name] = {tensor.dtype, tensor.shape, std::string(text, data.size())};
    }
  }
  return tensors;
}

/// EXPECTs the same tensors with the same bytes.
inline void expect_same_tensors(const std::filesystem::path& got_folder,
                                const std::filesystem::path& wanted_folder) {
  const auto got = stored_tensors_of(got_folder);
  const auto wanted = stored_tensors_of(wanted_folder);
  EXPECT_EQ(got.size(), wanted.size());
  int shown = 0;
  for (const auto& [name, tensor] : wanted) {
    const auto at = got.find(name);
    const bool same = at != got.end() && at->second == tensor;
    if (!same && ++shown <= 5) ADD_FAILURE() << name << (at == got.end() ? " is missing" : " differs");
  }
  EXPECT_EQ(shown, 0);
}

/// Every file's bytes by name; of the manifest all but what depends on the time of the run.
inline std::map<std::string, std::string> contents_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    files[name] = read_file(entry.path());
    if (name != kManifestName) continue;
    Json manifest = parse_json(files[name], name);
    manifest.erase("run");
    files[name] = manifest.dump();
  }
  return files;
}

inline void expect_same_folders(const std::filesystem::path& got_folder,
                                const std::filesystem::path& wanted_folder) {
  const auto got = contents_of(got_folder);
  const auto wanted = contents_of(wanted_folder);
  for (const auto& [name, bytes] : wanted) {
    ASSERT_EQ(got.count(name), 1U) << name;
    EXPECT_TRUE(got.at(name) == bytes) << name << " differs";
  }
  EXPECT_EQ(got.size(), wanted.size());
}

/// A stand-in in `folder`.
inline void make_standin(const std::string& config, uint64_t seed, CheckpointFormat format,
                         const std::filesystem::path& folder, int64_t shard_bytes = kShardBytesDefault) {
  MakeCheckpointOptions options = standin_options(config, seed, format, folder);
  options.shard_bytes = shard_bytes;
  options.threads = 2;
  make_checkpoint(options);
}

inline QuantizeOptions conversion(const std::filesystem::path& source, const std::filesystem::path& out,
                                  Target target = Target::nvfp4_experts) {
  QuantizeOptions options;
  options.source = source;
  options.out = out;
  options.target = target;
  options.workers = 2;
  return options;
}

inline QuantizeOutcome convert(const QuantizeOptions& options, const QuantizeHooks& hooks = {}) {
  const Plan plan = make_plan(options);
  QuantizeOutcome outcome = quantize(options, plan, hooks);
  EXPECT_LE(outcome.peak_buffer_bytes, plan.memory_bytes());
  return outcome;
}

inline Json manifest_of(const std::filesystem::path& folder) {
  return parse_json(read_file(folder / kManifestName), kManifestName);
}

}  // namespace glint::quantize
