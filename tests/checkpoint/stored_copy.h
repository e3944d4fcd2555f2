// A checkpoint's tensors in memory, to change them and write them back.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/make_checkpoint.h"
#include "tensor/safetensors.h"

namespace glint {

struct StoredCopy {
  TensorSpec spec;
  std::vector<std::byte> bytes;
};

class StoredTensors {
 public:
  /// All tensors of one file.
  explicit StoredTensors(const std::filesystem::path& file) {
    const SafetensorsFile source(file);
    for (const TensorEntry& entry : source.table().tensors()) {
      const auto data = source.data(entry);
      tensors.push_back({{entry.name, entry.dtype, entry.shape}, {data.begin(), data.end()}});
    }
  }

  std::vector<StoredCopy> tensors;

  StoredCopy& at(const std::string& name) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.spec.name == name; });
    if (found == tensors.end()) fail(ErrorKind::internal, "the test has no tensor ", name);
    return *found;
  }
  void erase(const std::string& name) { tensors.erase(tensors.begin() + (&at(name) - tensors.data())); }
  void rename(const std::string& name, const std::string& to) { at(name).spec.name = to; }
  /// Zeros.
  void add(const TensorSpec& spec) {
    tensors.push_back({spec, std::vector<std::byte>(static_cast<size_t>(spec.bytes()))});
  }
  void retype(const std::string& name, Dtype dtype, const Shape& shape) {
    StoredCopy& tensor = at(name);
    tensor.spec.dtype = dtype;
    tensor.spec.shape = shape;
    tensor.bytes.resize(static_cast<size_t>(tensor.spec.bytes()));
  }

  void save(const std::filesystem::path& file) const {
    std::vector<TensorSpec> specs;
    for (const StoredCopy& tensor : tensors) specs.push_back(tensor.spec);
    SafetensorsWriter writer(file, specs);
    for (size_t i = 0; i < tensors.size(); ++i)
      writer.write(i, 0, std::span<const std::byte>(tensors[i].bytes));
    writer.finish();
  }
};

/// Options for a stand-in of one of the small configurations in tests/data/goldens.
inline MakeCheckpointOptions standin_options(const std::string& case_name, uint64_t seed,
                                             CheckpointFormat format, const std::filesystem::path& folder) {
  MakeCheckpointOptions options;
  options.config_text =
      read_file(std::filesystem::path(GLINT_TEST_DATA) / "goldens" / case_name / "config.json");
  options.config_name = case_name + "/config.json";
  options.seed = seed;
  options.format = format;
  options.folder = folder;
  return options;
}

}  // namespace glint
