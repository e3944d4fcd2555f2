// Element types as safetensors files name them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace glint {

enum class Dtype {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  i64,
  u64,
  f64
};

/// The name in a safetensors header: "BF16", "F8_E4M3", ...
std::string_view dtype_name(Dtype dtype);

/// Bytes of one element (1, 2, 4 or 8).
int64_t dtype_bytes(Dtype dtype);

/// The inverse of dtype_name; nothing for a name that is not in the list above (sub-byte types are not).
std::optional<Dtype> parse_dtype(std::string_view name);

}  // namespace glint
