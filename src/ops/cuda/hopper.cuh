// Hopper's own instructions but for products: barriers in shared memory, the bulk copy engine, clusters.
//
// Addresses are of shared memory, as 32-bit numbers of the block's own window.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace glint::ops::cuda::hopper {

// Barriers: `phase` is the parity of the phase that is waited for; a fresh barrier is in phase 0.

__device__ __forceinline__ void init_barrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised barriers known to the cluster and the copy engine.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives at the barrier that another block of the cluster has at the same address. Orders only what wgmma
/// read before: a release for the whole cluster would fence all memory each time.
__device__ __forceinline__ void arrive_at(uint32_t barrier, int block) {
  asm volatile(
      "{\n.reg .b32 other;\nmapa.shared::cluster.u32 other, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [other];\n}\n" ::"r"(barrier),
      "r"(block)
      : "memory");
}
/// Arrives, and lets the phase end only when `bytes` have come by bulk copies.
__device__ __forceinline__ void arrive_for_bytes(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Arrives when the thread's asynchronous copies so far (copy_async) have come.
__device__ __forceinline__ void arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void wait_for_phase(uint32_t barrier, uint32_t phase) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}\n" ::"r"(barrier),
      "r"(phase)
      : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t to, const uint4& v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ __forceinline__ float load_shared(uint32_t from) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
  return value;
}
/// Copies four bytes to shared memory asynchronously.
__device__ __forceinline__ void copy_word_async(uint32_t shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
}
/// Lets wgmma and the copy engine see what other instructions wrote to shared memory.
__device__ __forceinline__ void fence_for_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Two warpgroups, 0 and 1, take turns.
__device__ __forceinline__ void take_turn(int warpgroup) {
  asm volatile("bar.sync %0, 256;" ::"r"(1 + warpgroup) : "memory");
}
/// Gives the other its turn.
__device__ __forceinline__ void pass_turn(int warpgroup) {
  asm volatile("bar.arrive %0, 256;" ::"r"(2 - warpgroup) : "memory");
}

__device__ __forceinline__ int cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Where a tile begins in a tensor map: bytes of a row, then the outer coordinates.
struct TileOrigin {
  int byte = 0, row = 0, slice = 0, block = 0;
};
/// Copies a tile; `barrier` counts its bytes.
__device__ __forceinline__ void copy_tile(uint32_t to, const CUtensorMap& map, const TileOrigin& from,
                                          uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(from.byte), "r"(from.row), "r"(from.slice), "r"(from.block)
      : "memory");
}
/// The same to the same place in each block of the cluster that `blocks` has a bit for, and to its barrier.
__device__ __forceinline__ void copy_tile_to(uint16_t blocks, uint32_t to, const CUtensorMap& map,
                                             const TileOrigin& from, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(from.byte), "r"(from.row), "r"(from.slice), "r"(from.block), "h"(blocks)
      : "memory");
}

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace glint::ops::cuda::hopper
