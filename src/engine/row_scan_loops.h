// The loops of row_scan.h for the instruction set that the including file is compiled for. Everything has
// internal linkage: these files must not emit functions that the linker could choose for callers elsewhere.
#pragma once

#include <cstring>

#include "engine/row_scan.h"

namespace glint {
namespace {

constexpr int kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint64_t Longs __attribute__((vector_size(64)));
typedef float HalfFloats __attribute__((vector_size(32)));
typedef double Doubles __attribute__((vector_size(64)));

#define GLINT_INLINE static inline __attribute__((always_inline))

GLINT_INLINE Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The last, short part of a row.
GLINT_INLINE Floats load_tail(const float* from, int64_t count, float otherwise) {
  float buffer[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) buffer[lane] = lane < count ? from[lane] : otherwise;
  return load(buffer);
}

GLINT_INLINE bool any(Ints mask) {
  Longs words;
  std::memcpy(&words, &mask, sizeof words);
  uint64_t all = 0;
  for (int i = 0; i < 8; ++i) all |= words[i];
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
  const Floats never = Floats{} - __builtin_inff();
  for (int64_t begin = 0; begin < size; begin += kRowBlock) {
    const int64_t end = begin + kRowBlock < size ? begin + kRowBlock : size;
    Floats top = never;
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const Floats value = load(row + i);
      bad |= value != value;
      top = value > top ? value : top;
    }
    if (i < end) {
      const Floats value = load_tail(row + i, end - i, -__builtin_inff());
      bad |= value != value;
      top = value > top ? value : top;
    }
    float largest = top[0];
    for (int lane = 1; lane < kLanes; ++lane) largest = top[lane] > largest ? top[lane] : largest;
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
  Doubles sums[2] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Floats weight = weight_of(load(row + i), largest, temperature, floor);
    std::memcpy(out + i, &weight, sizeof weight);
    add(weight, sums);
  }
  if (i < size) {
    const Floats weight =
        weight_of(load_tail(row + i, size - i, -__builtin_inff()), largest, temperature, floor);
    for (int64_t lane = 0; i + lane < size; ++lane) out[i + lane] = weight[lane];
    add(weight, sums);
  }
  double sum = 0;
  for (const Doubles& part : sums) {
    for (int lane = 0; lane < 8; ++lane) sum += part[lane];
  }
  return sum;
}

int64_t gather_of(const float* weights, int64_t size, float least, Candidate* out) {
  int64_t count = 0;
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t left = size - i;
    if (left >= kLanes && !any(load(weights + i) >= least)) continue;
    for (int64_t lane = i; lane < i + (left < kLanes ? left : kLanes); ++lane) {
      if (weights[lane] >= least) {
        out[count].id = static_cast<int32_t>(lane);
        out[count].weight = weights[lane];
        ++count;
      }
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
  Words id;
  for (int lane = 0; lane < kLanes; ++lane) id[lane] = static_cast<uint32_t>(lane);
  // An arrival -log(1 - u) / w is later than u / w: most ids lose by this bound, without a logarithm. The
  // bound is rounded so that it never refuses a winner.
  float bound = static_cast<float>(state.time * (1 + 1e-6));
  for (int64_t i = 0; i < size; i += kLanes, id += static_cast<uint32_t>(kLanes)) {
    const Floats weight = size - i >= kLanes ? load(weights + i) : load_tail(weights + i, size - i, 0);
    const Words upper = hash_of(id, key_low, key_high) >> 8;
    Ints bits;
    std::memcpy(&bits, &upper, sizeof bits);
    const Floats u = __builtin_convertvector(bits, Floats) * 0x1p-24F;
    const Ints in_time = (u < weight * bound) & (weight >= cut.least_weight);
    if (!any(in_time)) continue;
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto at = static_cast<int32_t>(i + lane);
      if (in_time[lane] == 0 || (weight[lane] == cut.least_weight && at > cut.least_id)) continue;
      const double time = race_time(key, at, weight[lane]);
      if (time < state.time) {
        state.time = time;
        state.id = at;
        bound = static_cast<float>(time * (1 + 1e-6));
      }
    }
  }
}

#undef GLINT_INLINE

}  // namespace
}  // namespace glint
