#include "tensor/dtype.h"

#include <array>

#include "base/error.h"

namespace glint {

namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array kDtypes = {
    DtypeRow{Dtype::boolean, "BOOL", 1},    DtypeRow{Dtype::u8, "U8", 1},
    DtypeRow{Dtype::i8, "I8", 1},           DtypeRow{Dtype::f8_e5m2, "F8_E5M2", 1},
    DtypeRow{Dtype::f8_e4m3, "F8_E4M3", 1}, DtypeRow{Dtype::f8_e8m0, "F8_E8M0", 1},
    DtypeRow{Dtype::i16, "I16", 2},         DtypeRow{Dtype::u16, "U16", 2},
    DtypeRow{Dtype::f16, "F16", 2},         DtypeRow{Dtype::bf16, "BF16", 2},
    DtypeRow{Dtype::i32, "I32", 4},         DtypeRow{Dtype::u32, "U32", 4},
    DtypeRow{Dtype::f32, "F32", 4},         DtypeRow{Dtype::i64, "I64", 8},
    DtypeRow{Dtype::u64, "U64", 8},         DtypeRow{Dtype::f64, "F64", 8},
};

const DtypeRow& row_of(Dtype dtype) {
  const DtypeRow& row = kDtypes.at(static_cast<size_t>(dtype));
  GLINT_CHECK(row.dtype == dtype);
  return row;
}

}  // namespace

std::string_view dtype_name(Dtype dtype) {
  return row_of(dtype).name;
}

int64_t dtype_bytes(Dtype dtype) {
  return row_of(dtype).bytes;
}

std::optional<Dtype> parse_dtype(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace glint
