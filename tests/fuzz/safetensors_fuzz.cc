// Arbitrary bytes as a safetensors file: either an error, or a table whose tensors fill the data area.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "base/error.h"
#include "tensor/safetensors.h"

namespace {

void require(bool condition, const char* promise) {
  if (condition) return;
  std::cerr << "broken: " << promise << "\n";
  std::abort();
}

void check(std::string_view file) {
  const auto file_bytes = static_cast<int64_t>(file.size());
  const glint::SafetensorsTable table = glint::parse_safetensors(file, file_bytes, "fuzz");
  int64_t end = 0;
  for (const glint::TensorEntry& entry : table.tensors()) {
    require(entry.begin == end, "tensors follow each other");
    require(entry.bytes() == glint::element_count(entry.shape) * glint::dtype_bytes(entry.dtype),
            "sizes match");
    require(table.find(entry.name) == &entry, "every tensor is found");
    (void)glint::json_quoted(entry.name);
    end = entry.end;
  }
  require(table.data_begin() + end == file_bytes, "the data area is full");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    check(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const glint::Error& error) {
    require(error.kind() != glint::ErrorKind::internal, error.what());
    require(std::string_view(error.what()).find('\n') == std::string_view::npos, "an error is one line");
  }
  return 0;
}
