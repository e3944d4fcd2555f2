// Hopper's products of tiles in shared memory (wgmma), by a warpgroup of 128 threads.
#pragma once

#include <cstdint>

namespace glint::ops::cuda::hopper {

/// The low half of the matrix descriptor of a tile at `address`: rows of 128 bytes, eight of them 1024 bytes,
/// 128-byte swizzle. 16 bytes further it is one more.
__device__ __forceinline__ uint32_t matrix_at(uint32_t address) {
  return address >> 4 | 1U << 16;
}
__device__ __forceinline__ uint64_t descriptor(uint32_t matrix) {
  return 0x40000040ULL << 32 | matrix;
}

#define GLINT_WGMMA_FIRST                                                            \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define GLINT_WGMMA_SECOND                                                                       \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define GLINT_WGMMA_SUMS(d)                                                                                 \
  "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]),         \
      "+f"((d)[7]), "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), \
      "+f"((d)[14]), "+f"((d)[15]), "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]),             \
      "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), "+f"((d)[24]), "+f"((d)[25]),             \
      "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]),             \
      "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]),             \
      "+f"((d)[38]), "+f"((d)[39]), "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]),             \
      "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), "+f"((d)[48]), "+f"((d)[49]),             \
      "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]),             \
      "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]),             \
      "+f"((d)[62]), "+f"((d)[63])

// d (+)= 64 rows of the matrix `a` by 128 rows of `b` for each part of d, 32 bytes of each row. A thread's
// sums: d[.][4
// i
// + 2 h + e] is of row h * 8 + lane / 4 of its warp's sixteen and column i * 8 + lane % 4 * 2 + e.
__device__ __forceinline__ void multiply_fp8(float (&d)[64], uint32_t a, uint32_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" GLINT_WGMMA_FIRST "}, %64, %65, p, 1, 1;\n}\n"
      : GLINT_WGMMA_SUMS(d)
      : "l"(descriptor(a)), "l"(descriptor(b)), "r"(static_cast<int>(add)));
}
__device__ __forceinline__ void multiply_bf16(float (&d)[64], uint32_t a, uint32_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" GLINT_WGMMA_FIRST
      "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
      : GLINT_WGMMA_SUMS(d)
      : "l"(descriptor(a)), "l"(descriptor(b)), "r"(static_cast<int>(add)));
}
__device__ __forceinline__ void multiply_bf16(float (&d)[2][64], uint32_t a, uint32_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" GLINT_WGMMA_FIRST ", " GLINT_WGMMA_SECOND
      "}, %128, %129, p, 1, 1, 0, 0;\n}\n"
      : GLINT_WGMMA_SUMS(d[0]), GLINT_WGMMA_SUMS(d[1])
      : "l"(descriptor(a)), "l"(descriptor(b)), "r"(static_cast<int>(add)));
}
#undef GLINT_WGMMA_FIRST
#undef GLINT_WGMMA_SECOND
#undef GLINT_WGMMA_SUMS

__device__ __forceinline__ void begin_multiply() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void end_multiply() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most kLeft groups of products are under way.
template <int kLeft>
__device__ __forceinline__ void wait_for_multiply() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
/// Later reads of d stay behind this, earlier writes before it.
__device__ __forceinline__ void pin(float (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace glint::ops::cuda::hopper
