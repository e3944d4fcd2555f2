#include "bench/serve/random_numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace glint::bench {

// ----------------------------------------------------------------------------------------------------
// MT19937

void MersenneTwister::seed(uint32_t seed) {
  for (size_t i = 0; i < kWords; ++i) {
    state_[i] = seed;
    seed = 1812433253U * (seed ^ (seed >> 30U)) + static_cast<uint32_t>(i) + 1U;
  }
  at_ = kWords;
}

void MersenneTwister::seed_by_array(std::span<const uint32_t> key) {
  seed(19650218U);
  size_t i = 1;
  size_t j = 0;
  const auto mixed = [&](uint32_t factor) {
    return state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30U)) * factor);
  };
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (size_t step = std::max(kWords, key.size()); step > 0; --step) {
    state_[i] = mixed(1664525U) + key[j] + static_cast<uint32_t>(j);
    advance();
    if (++j == key.size()) j = 0;
  }
  for (size_t step = kWords - 1; step > 0; --step) {
    state_[i] = mixed(1566083941U) - static_cast<uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000U;
  at_ = kWords;
}

void MersenneTwister::refill() {
  constexpr size_t kOffset = 397;
  for (size_t i = 0; i < kWords; ++i) {
    const uint32_t joined = (state_[i] & 0x80000000U) | (state_[(i + 1) % kWords] & 0x7fffffffU);
    const uint32_t twist = (joined >> 1U) ^ ((joined & 1U) != 0 ? 0x9908b0dfU : 0U);
    state_[i] = state_[(i + kOffset) % kWords] ^ twist;
  }
  at_ = 0;
}

uint32_t MersenneTwister::next() {
  if (at_ == kWords) refill();
  uint32_t value = state_[at_++];
  value ^= value >> 11U;
  value ^= (value << 7U) & 0x9d2c5680U;
  value ^= (value << 15U) & 0xefc60000U;
  return value ^ (value >> 18U);
}

// ----------------------------------------------------------------------------------------------------
// numpy.random.default_rng

namespace {

/// NumPy's SeedSequence of a whole number: a pool of four words, hashed and mixed.
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t entropy) {
    std::array<uint32_t, kPool> words{};
    words[0] = static_cast<uint32_t>(entropy);
    words[1] = static_cast<uint32_t>(entropy >> 32U);
    for (size_t i = 0; i < kPool; ++i) pool_[i] = hashed(words[i]);
    for (size_t from = 0; from < kPool; ++from) {
      for (size_t to = 0; to < kPool; ++to) {
        if (from != to) pool_[to] = mix(pool_[to], hashed(pool_[from]));
      }
    }
  }

  /// generate_state(4, numpy.uint64).
  [[nodiscard]] std::array<uint64_t, 4> generate() const {
    std::array<uint64_t, 4> result{};
    uint32_t factor = 0x8b51f9ddU;
    for (size_t i = 0; i < 8; ++i) {
      uint32_t value = pool_[i % kPool] ^ factor;
      factor *= 0x58f38dedU;
      value *= factor;
      value ^= value >> kShift;
      result[i / 2] |= uint64_t{value} << (32U * (i % 2));
    }
    return result;
  }

 private:
  static constexpr size_t kPool = 4;
  static constexpr uint32_t kShift = 16;

  uint32_t hashed(uint32_t value) {
    value ^= factor_;
    factor_ *= 0x931e8875U;
    value *= factor_;
    return value ^ (value >> kShift);
  }
  static uint32_t mix(uint32_t x, uint32_t y) {
    const uint32_t value = 0xca01f9ddU * x - 0x4973f715U * y;
    return value ^ (value >> kShift);
  }

  std::array<uint32_t, kPool> pool_{};
  uint32_t factor_ = 0x43b0d7e5U;
};

}  // namespace

NumpyGenerator::NumpyGenerator(uint64_t seed) {
  const auto words = SeedSequence(seed).generate();
  const Uint128 start = (Uint128{words[0]} << 64U) | words[1];
  const Uint128 stream = (Uint128{words[2]} << 64U) | words[3];
  increment_ = (stream << 1U) | 1U;
  next64();
  state_ += start;
  next64();
}

uint64_t NumpyGenerator::next64() {
  constexpr Uint128 kMultiplier = (Uint128{2549297995355413924U} << 64U) | 4865540595714422341U;
  state_ = state_ * kMultiplier + increment_;
  const auto folded = static_cast<uint64_t>(state_ >> 64U) ^ static_cast<uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122U));
}

uint32_t NumpyGenerator::next32() {
  if (has_half_) {
    has_half_ = false;
    return half_;
  }
  const uint64_t value = next64();
  has_half_ = true;
  half_ = static_cast<uint32_t>(value >> 32U);
  return static_cast<uint32_t>(value);
}

uint64_t NumpyGenerator::bounded(uint64_t range) {
  if (range == 0) return 0;
  if (range == UINT64_MAX) return next64();
  if (range == UINT32_MAX) return next32();
  if (range < UINT32_MAX) {
    const uint32_t bound = static_cast<uint32_t>(range) + 1U;
    uint64_t product = uint64_t{next32()} * bound;
    const uint32_t threshold = (0U - bound) % bound;
    while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next32()} * bound;
    return product >> 32U;
  }
  const uint64_t bound = range + 1;
  Uint128 product = Uint128{next64()} * bound;
  const uint64_t threshold = (0U - bound) % bound;
  while (static_cast<uint64_t>(product) < threshold) product = Uint128{next64()} * bound;
  return static_cast<uint64_t>(product >> 64U);
}

std::vector<int64_t> NumpyGenerator::integers(int64_t low, int64_t high, size_t count) {
  std::vector<int64_t> values(count);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) - 1;
  for (int64_t& value : values) value = static_cast<int64_t>(static_cast<uint64_t>(low) + bounded(range));
  return values;
}

// ----------------------------------------------------------------------------------------------------
// numpy.random.seed

void NumpyLegacyRandom::seed(uint32_t seed) {
  twister_.seed(seed);
  has_gauss_ = false;
}

std::vector<int64_t> NumpyLegacyRandom::randint(int64_t low, int64_t high, size_t count) {
  std::vector<int64_t> values(count);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) - 1;
  const uint64_t mask = range == 0 ? 0 : UINT64_MAX >> static_cast<unsigned>(std::countl_zero(range));
  const auto draw = [&]() -> uint64_t {
    if (range <= UINT32_MAX) return twister_.next();
    const uint64_t upper = twister_.next();
    return (upper << 32U) | twister_.next();
  };
  for (int64_t& value : values) {
    uint64_t drawn = 0;
    if (range > 0) {
      do drawn = draw() & mask;
      while (drawn > range);
    }
    value = static_cast<int64_t>(static_cast<uint64_t>(low) + drawn);
  }
  return values;
}

double NumpyLegacyRandom::uniform() {
  const uint32_t upper = twister_.next() >> 5U;
  const uint32_t lower = twister_.next() >> 6U;
  return (upper * 67108864.0 + lower) / 9007199254740992.0;
}

double NumpyLegacyRandom::exponential() {
  return -std::log(1.0 - uniform());
}

/// The polar method: two variates at a time.
double NumpyLegacyRandom::gauss() {
  if (has_gauss_) {
    has_gauss_ = false;
    return gauss_;
  }
  double x = 0;
  double y = 0;
  double square = 0;
  do {
    x = 2.0 * uniform() - 1.0;
    y = 2.0 * uniform() - 1.0;
    square = x * x + y * y;
  } while (square >= 1.0 || square == 0.0);
  const double factor = std::sqrt(-2.0 * std::log(square) / square);
  gauss_ = factor * x;
  has_gauss_ = true;
  return factor * y;
}

double NumpyLegacyRandom::small_gamma(double shape) {
  for (;;) {
    const double u = uniform();
    const double v = exponential();
    if (u <= 1.0 - shape) {
      const double x = std::pow(u, 1.0 / shape);
      if (x <= v) return x;
    } else {
      const double y = -std::log((1.0 - u) / shape);
      const double x = std::pow(1.0 - shape + shape * y, 1.0 / shape);
      if (x <= v + y) return x;
    }
  }
}

double NumpyLegacyRandom::standard_gamma(double shape) {
  if (shape == 1.0) return exponential();
  if (shape == 0.0) return 0.0;
  if (shape < 1.0) return small_gamma(shape);
  const double b = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * b);
  for (;;) {
    double x = 0;
    double v = 0;
    do {
      x = gauss();
      v = 1.0 + c * x;
    } while (v <= 0.0);
    v = v * v * v;
    const double u = uniform();
    if (u < 1.0 - 0.0331 * (x * x) * (x * x)) return b * v;
    if (std::log(u) < 0.5 * x * x + b * (1.0 - v + std::log(v))) return b * v;
  }
}

double NumpyLegacyRandom::gamma(double shape, double scale) {
  return scale * standard_gamma(shape);
}

// ----------------------------------------------------------------------------------------------------
// random

PythonRandom::PythonRandom(uint64_t seed) {
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32U)};
  twister_.seed_by_array(std::span(key).first(seed > UINT32_MAX ? 2 : 1));
}

size_t PythonRandom::below(size_t count) {
  // Of `count` values, not of count - 1: Python draws one bit more for powers of two.
  const auto bits = static_cast<unsigned>(std::bit_width(count));
  for (;;) {
    uint64_t value = twister_.next();
    if (bits > 32) {
      value |= uint64_t{twister_.next() >> (64U - bits)} << 32U;
    } else {
      value >>= 32U - bits;
    }
    if (value < count) return value;
  }
}

}  // namespace glint::bench
