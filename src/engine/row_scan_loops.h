// The loops of row_scan.h for the instruction set that the including file is compiled for. Everything has
// internal linkage: these files must not emit functions that the linker could choose for callers elsewhere.
#pragma once

#include <cstring>

#include "engine/row_scan.h"

namespace glint {
namespace {

#if defined(__AVX512F__)
#define GLINT_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define GLINT_VECTOR_BYTES 32
#else
#define GLINT_VECTOR_BYTES 16
#endif

constexpr int kLanes = 16;                      // of a sum, whatever the vectors hold
constexpr int kWidth = GLINT_VECTOR_BYTES / 4;  // of a vector
constexpr int kParts = kLanes / kWidth;
constexpr int64_t kGroup = 64;  // ids that are tested together
typedef float Floats __attribute__((vector_size(GLINT_VECTOR_BYTES)));
typedef int32_t Ints __attribute__((vector_size(GLINT_VECTOR_BYTES)));
typedef uint32_t Words __attribute__((vector_size(GLINT_VECTOR_BYTES)));
typedef float HalfFloats __attribute__((vector_size(GLINT_VECTOR_BYTES / 2)));
typedef double Doubles __attribute__((vector_size(GLINT_VECTOR_BYTES)));

#define GLINT_INLINE static inline __attribute__((always_inline))

GLINT_INLINE Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The last, short part of a row.
GLINT_INLINE void copy_tail(const float* from, int64_t count, float otherwise, float* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] = i < count ? from[i] : otherwise;
}

GLINT_INLINE bool any(Ints mask) {
  uint64_t words[GLINT_VECTOR_BYTES / 8];
  std::memcpy(words, &mask, sizeof words);
  uint64_t all = 0;
  for (const uint64_t word : words) all |= word;
  return all != 0;
}

/// exp(x) for x <= 0; below -87 the result is about 1e-38.
GLINT_INLINE Floats exp_of(Floats x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const Floats low = Floats{} - 87.0F;
  x = x < low ? low : x;
  const Floats shifted = x * 1.44269504F + kRound;
  const Floats whole = shifted - kRound;
  Floats r = x - whole * 0.693359375F;
  r = r + whole * 2.12194440e-4F;
  Floats p = r * 0.00138145237F + 0.00836874686F;
  p = p * r + 0.0416683911F;
  p = p * r + 0.166665204F;
  p = p * r + 0.499999934F;
  p = p * (r * r) + r + 1.0F;
  Ints exponent;
  std::memcpy(&exponent, &shifted, sizeof exponent);
  exponent = (exponent - 0x4B400000 + 127) << 23;
  Floats power;
  std::memcpy(&power, &exponent, sizeof power);
  return p * power;
}

bool peaks_of(const float* row, int64_t size, float* peaks) {
  Ints bad = {};
  float tail[kLanes];
  for (int64_t begin = 0; begin < size; begin += kRowBlock) {
    const int64_t end = begin + kRowBlock < size ? begin + kRowBlock : size;
    Floats top[kParts];
    for (Floats& part : top) part = Floats{} - __builtin_inff();
    for (int64_t i = begin; i < end; i += kLanes) {
      const float* from = row + i;
      if (end - i < kLanes) {
        copy_tail(from, end - i, -__builtin_inff(), tail, kLanes);
        from = tail;
      }
      for (int part = 0; part < kParts; ++part) {
        const Floats value = load(from + part * kWidth);
        bad |= value != value;
        top[part] = value > top[part] ? value : top[part];
      }
    }
    float largest = top[0][0];
    for (const Floats& part : top) {
      for (int lane = 0; lane < kWidth; ++lane) largest = part[lane] > largest ? part[lane] : largest;
    }
    *peaks++ = largest;
  }
  return !any(bad);
}

GLINT_INLINE Floats weight_of(Floats value, float largest, float temperature, float floor) {
  const Floats weight = exp_of((value - largest) / temperature);
  return weight >= floor ? weight : Floats{};
}

GLINT_INLINE void add(Floats value, Doubles* sums) {
  HalfFloats low;
  HalfFloats high;
  std::memcpy(&low, &value, sizeof low);
  std::memcpy(&high, reinterpret_cast<const char*>(&value) + sizeof low, sizeof high);
  sums[0] += __builtin_convertvector(low, Doubles);
  sums[1] += __builtin_convertvector(high, Doubles);
}

double weights_of(const float* row, int64_t size, float largest, float temperature, float floor, float* out) {
  Doubles sums[2 * kParts] = {};
  float tail[kLanes];
  float tail_out[kLanes];
  for (int64_t i = 0; i < size; i += kLanes) {
    const bool whole = size - i >= kLanes;
    if (!whole) copy_tail(row + i, size - i, -__builtin_inff(), tail, kLanes);
    const float* const from = whole ? row + i : tail;
    float* const to = whole ? out + i : tail_out;
    for (int part = 0; part < kParts; ++part) {
      const Floats weight = weight_of(load(from + part * kWidth), largest, temperature, floor);
      std::memcpy(to + part * kWidth, &weight, sizeof weight);
      add(weight, sums + 2 * part);
    }
    for (int64_t lane = 0; !whole && i + lane < size; ++lane) out[i + lane] = tail_out[lane];
  }
  double sum = 0;
  for (const Doubles& part : sums) {
    for (int lane = 0; lane < kWidth / 2; ++lane) sum += part[lane];
  }
  return sum;
}

double shares_of(const float* weights, int64_t size) {
  constexpr double kRound = 0x1.8p52;
  constexpr int kHalf = kWidth / 2;
  Doubles sums = {};
  int64_t i = 0;
  for (; i + kHalf <= size; i += kHalf) {
    HalfFloats part;
    std::memcpy(&part, weights + i, sizeof part);
    sums += __builtin_convertvector(part, Doubles) * 0x1p34 + kRound - kRound;
  }
  double sum = 0;
  for (int lane = 0; lane < kHalf; ++lane) sum += sums[lane];
  for (; i < size; ++i) sum += static_cast<double>(weights[i]) * 0x1p34 + kRound - kRound;
  return sum;
}

int64_t gather_of(const float* weights, int64_t size, float least, Candidate* out) {
  int64_t count = 0;
  for (int64_t i = 0; i < size; i += kGroup) {
    const int64_t end = size - i < kGroup ? size : i + kGroup;
    if (end - i == kGroup) {
      Ints found = {};
      for (int64_t j = i; j < end; j += kWidth) found |= load(weights + j) >= least;
      if (!any(found)) continue;
    }
    for (int64_t j = i; j < end; ++j) {
      out[count].id = static_cast<int32_t>(j);
      out[count].weight = weights[j];
      count += weights[j] >= least ? 1 : 0;
    }
  }
  return count;
}

/// The upper half of an id's random number; see race_hash() in row_scan.cc.
GLINT_INLINE Words hash_of(Words id, uint32_t key_low, uint32_t key_high) {
  Words x = id * 0x9E3779B1U + key_low;
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  x ^= x >> 16;
  x += key_high;
  x ^= x >> 17;
  x *= 0xED5AD4BBU;
  x ^= x >> 11;
  x *= 0xAC4C1B51U;
  x ^= x >> 15;
  return x;
}

void race_of(const float* weights, int64_t size, uint64_t key, RaceCut cut, RaceState& state) {
  const auto key_low = static_cast<uint32_t>(key);
  const auto key_high = static_cast<uint32_t>(key >> 32);
  Words lanes;
  for (int lane = 0; lane < kWidth; ++lane) lanes[lane] = static_cast<uint32_t>(lane);
  // An arrival -log(1 - u) / w is later than u / w: most ids lose by this bound, without a logarithm. The
  // bound is rounded so that it never refuses a winner.
  float bound = static_cast<float>(state.time * (1 + 1e-6));
  float tail[kGroup];
  float numbers[kGroup];
  for (int64_t i = 0; i < size; i += kGroup) {
    const float* from = weights + i;
    if (size - i < kGroup) {
      copy_tail(from, size - i, 0, tail, kGroup);
      from = tail;
    }
    Ints in_time = {};
    for (int64_t j = 0; j < kGroup; j += kWidth) {
      const Floats weight = load(from + j);
      const Words upper = hash_of(lanes + static_cast<uint32_t>(i + j), key_low, key_high) >> 8;
      Ints bits;
      std::memcpy(&bits, &upper, sizeof bits);
      const Floats u = __builtin_convertvector(bits, Floats) * 0x1p-24F;
      std::memcpy(numbers + j, &u, sizeof u);
      in_time |= (u < weight * bound) & (weight >= cut.least_weight);
    }
    if (!any(in_time)) continue;
    for (int64_t j = 0; j < kGroup; ++j) {
      const auto id = static_cast<int32_t>(i + j);
      const float weight = from[j];
      if (!(numbers[j] < weight * bound) || weight < cut.least_weight ||
          (weight == cut.least_weight && id > cut.least_id))
        continue;
      const double time = race_time(key, id, weight);
      if (time < state.time) {
        state.time = time;
        state.id = id;
        bound = static_cast<float>(time * (1 + 1e-6));
      }
    }
  }
}

#undef GLINT_VECTOR_BYTES
#undef GLINT_INLINE

}  // namespace
}  // namespace glint
