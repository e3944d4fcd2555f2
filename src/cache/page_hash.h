// What a cached page depends on, as a cryptographic hash: equal hashes mean equal contents.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace glint {

/// SHA-256.
struct PageHash {
  std::array<uint8_t, 32> bytes{};
  friend bool operator==(const PageHash&, const PageHash&) = default;
};

/// Lower-case hexadecimal.
std::string hex(const PageHash& hash);

/// The start of a chain: SHA-256 over the identity (everything that decides a page's bytes besides the
/// tokens: weights, compute type, cache format, layout version, instruction set) and the tenant's salt, each
/// with its length in front.
PageHash chain_root(std::string_view identity, std::string_view salt);

/// The hash of the page that follows `parent` and holds `tokens`.
PageHash chain_next(const PageHash& parent, std::span<const int32_t> tokens);

}  // namespace glint
