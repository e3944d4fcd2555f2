#include "engine/row_scan.h"

#include <cmath>

#include "engine/row_scan_isa.h"

namespace glint {

namespace {

uint64_t mix(uint64_t z) {  // the splitmix64 finaliser
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// As hash_of() in row_scan_loops.h.
uint32_t upper_hash(uint32_t id, uint64_t key) {
  uint32_t x = id * 0x9E3779B1U + static_cast<uint32_t>(key);
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  x ^= x >> 16;
  x += static_cast<uint32_t>(key >> 32);
  x ^= x >> 17;
  x *= 0xED5AD4BBU;
  x ^= x >> 11;
  x *= 0xAC4C1B51U;
  x ^= x >> 15;
  return x;
}

}  // namespace

double race_time(uint64_t key, int32_t id, float weight) {
  // 64 random bits, the upper half of which the vector loops make: a rare token needs a number close to 0.
  const auto low =
      static_cast<uint32_t>(mix(key ^ (uint64_t{0x9E3779B97F4A7C15ULL} * (static_cast<uint64_t>(id) + 1))));
  const uint32_t high = upper_hash(static_cast<uint32_t>(id), key);
  const double u = (static_cast<double>(high) + (static_cast<double>(low) + 0.5) * 0x1p-32) * 0x1p-32;
  return -std::log1p(-u) / static_cast<double>(weight);
}

const RowScans& row_scans(Isa isa) {
#ifdef GLINT_X86_64
  if (isa == Isa::avx512 || isa == Isa::avx512_bf16) return row_scans_avx512;
  if (isa == Isa::avx2) return row_scans_avx2;
#endif
  static_cast<void>(isa);
  return row_scans_portable;
}

}  // namespace glint
