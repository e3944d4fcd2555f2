// What broken requests are made from.
#pragma once

#include <string>
#include <vector>

namespace glint {

using Texts = std::vector<std::string>;

/// Good bodies of every route that takes one, with as many fields as there are.
const Texts& fuzz_seed_bodies();
/// Texts that mean something somewhere, or that nobody expects.
const Texts& fuzz_strings();
/// Values for JSON text, legal or not.
const Texts& fuzz_raw_values();
const Texts& fuzz_field_names();
const Texts& fuzz_methods();
/// Header lines without their end.
const Texts& fuzz_odd_headers();
/// Sizes of chunks that are none, or nearly.
const Texts& fuzz_chunk_sizes();

}  // namespace glint
