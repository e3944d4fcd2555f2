#include "tensor/dtype.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(Dtype, NamesAndSizesMatch) {
  // The names of the format and the bytes of one element, written down independently of the table.
  const std::pair<const char*, int64_t> rows[] = {{"BOOL", 1},    {"U8", 1},      {"I8", 1},  {"F8_E5M2", 1},
                                                  {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2},
                                                  {"F16", 2},     {"BF16", 2},    {"I32", 4}, {"U32", 4},
                                                  {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};
  for (const auto& [name, bytes] : rows) {
    const auto dtype = parse_dtype(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(dtype_name(*dtype), name);
    EXPECT_EQ(dtype_bytes(*dtype), bytes) << name;
  }
  EXPECT_FALSE(parse_dtype("bf16"));
  EXPECT_FALSE(parse_dtype(""));
  EXPECT_FALSE(parse_dtype("F4"));
}

}  // namespace
}  // namespace glint
