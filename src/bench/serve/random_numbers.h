// The generators whose draws decide what a benchmark sends, number for number as NumPy and Python draw them:
// prompts and arrivals must be those of a Python client with the same seed.
//
// Sources: O'Neill's PCG64 (XSL-RR output of a 128-bit LCG), her seed_seq as NumPy's SeedSequence fixes it,
// Matsumoto and Nishimura's MT19937, Lemire's bounded integers, Marsaglia and Tsang's gamma variates. The
// order of the draws is NumPy's (2.x) and CPython's (3.x); tests/bench compares with both.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace glint::bench {

/// MT19937.
class MersenneTwister {
 public:
  /// The state of seed `seed` (init_genrand).
  void seed(uint32_t seed);
  /// The state of a key of words (init_by_array); `key` is not empty.
  void seed_by_array(std::span<const uint32_t> key);
  uint32_t next();

 private:
  static constexpr size_t kWords = 624;
  void refill();
  std::array<uint32_t, kWords> state_{};
  size_t at_ = kWords;
};

/// numpy.random.default_rng(seed): PCG64 behind a SeedSequence.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint64_t seed);
  /// integers(low, high, size=count): int64 in [low, high), low < high.
  std::vector<int64_t> integers(int64_t low, int64_t high, size_t count);

 private:
  __extension__ using Uint128 = unsigned __int128;
  uint64_t next64();
  uint32_t next32();
  uint64_t bounded(uint64_t range);  // in [0, range], Lemire's method

  Uint128 state_ = 0, increment_ = 0;
  bool has_half_ = false;  // the upper half of the last draw waits
  uint32_t half_ = 0;
};

/// numpy.random.seed and the functions of the module: the legacy RandomState.
class NumpyLegacyRandom {
 public:
  explicit NumpyLegacyRandom(uint32_t seed) { this->seed(seed); }
  void seed(uint32_t seed);
  /// randint(low, high, size=count): int64 in [low, high), low < high.
  std::vector<int64_t> randint(int64_t low, int64_t high, size_t count);
  /// gamma(shape, scale); shape >= 0.
  double gamma(double shape, double scale);

 private:
  double uniform();  // in [0, 1), 53 bits
  double exponential();
  double gauss();
  double standard_gamma(double shape);
  double small_gamma(double shape);  // shape below 1

  MersenneTwister twister_;
  bool has_gauss_ = false;
  double gauss_ = 0;
};

/// Python's random module behind random.seed(seed).
class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);
  /// An index in [0, count), as choice() and shuffle() take it; count > 0.
  size_t below(size_t count);

  /// random.shuffle.
  template <class Item>
  void shuffle(std::vector<Item>& items) {
    for (size_t i = items.size(); i-- > 1;) {
      const size_t j = below(i + 1);
      std::swap(items[i], items[j]);
    }
  }

 private:
  MersenneTwister twister_;
};

}  // namespace glint::bench
