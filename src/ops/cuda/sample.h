// Tokens from logits, where the logits are: the same function as engine/sampler.h, which says what is taken.
// Every step is defined without an order of additions, so both take the same token; only the logarithm of a
// race's arrivals is each library's own, which matters where two arrivals agree to 15 digits.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/types.h"

namespace glint::ops::cuda {

/// As the fields of SamplingParams, and the sequence's seed.
struct SampleParams {
  float temperature;
  float top_p;
  float min_p;
  int32_t top_k;
  uint64_t seed;
};

/// All on the device.
struct SampleRows {
  Floats logits;                         // [rows, vocab_size], at most 2^19 ids; not changed
  const uint32_t* sampleable = nullptr;  // bit id % 32 of word id / 32: may be taken
  int64_t rows_each = 1;                 // row r is of sequence r / rows_each,
  const SampleParams* params = nullptr;  // [sequences]
  const int32_t* generated = nullptr;    // [sequences]
  int64_t ahead = 0;                     // and of the output position generated + ahead + r % rows_each
  int32_t* tokens = nullptr;             // [rows] out; -1: a NaN, an infinity, or nothing above -inf
};

/// What sample() works in: memory of sample_scratch_bytes(rows_max, vocab_size) bytes, zeros before its first
/// use, for any number of rows up to rows_max from then on.
struct SampleScratch {
  void* memory = nullptr;
  int64_t rows_max = 0;
};
/// Raises the kernels' shared-memory limits; once per device, before anything is captured.
void prepare_sampling();
int64_t sample_scratch_bytes(int64_t rows_max, int64_t vocab_size);
void sample(const SampleRows& rows, const SampleScratch& scratch, cudaStream_t stream);

}  // namespace glint::ops::cuda
