#include "quantize/options.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace glint::quantize {

namespace {

template <class T, size_t N>
using Names = std::array<std::pair<T, std::string_view>, N>;

constexpr Names<Target, 4> kTargets = {{{Target::nvfp4_experts, "nvfp4-experts"},
                                        {Target::nvfp4_experts_fp8, "nvfp4-experts+fp8"},
                                        {Target::fp8_block, "fp8-block"},
                                        {Target::bf16, "bf16"}}};
constexpr Names<GlobalScale, 2> kGlobalScales = {
    {{GlobalScale::exact, "exact"}, {GlobalScale::torch_cuda, "torch-cuda"}}};
constexpr Names<ScaleSearch, 2> kSearches = {{{ScaleSearch::max, "max"}, {ScaleSearch::mse, "mse"}}};
constexpr Names<KvCacheHint, 2> kHints = {{{KvCacheHint::fp8, "fp8"}, {KvCacheHint::none, "none"}}};

template <class T, size_t N>
std::string_view name_of(const Names<T, N>& names, T value) {
  for (const auto& [each, name] : names) {
    if (each == value) return name;
  }
  return "?";
}

template <class T, size_t N>
T parsed(const Names<T, N>& names, std::string_view flag, std::string_view text) {
  std::string choices;
  for (const auto& [value, name] : names) {
    if (name == text) return value;
    choices += cat(choices.empty() ? "" : ", ", name);
  }
  fail(ErrorKind::bad_input, flag, " is \"", text, "\", expected one of ", choices);
}

}  // namespace

std::string_view target_name(Target target) {
  return name_of(kTargets, target);
}
std::string_view global_scale_name(GlobalScale mode) {
  return name_of(kGlobalScales, mode);
}
std::string_view scale_search_name(ScaleSearch search) {
  return name_of(kSearches, search);
}
std::string_view kv_cache_hint_name(KvCacheHint hint) {
  return name_of(kHints, hint);
}
Target parse_target(std::string_view text) {
  return parsed(kTargets, "--format", text);
}
GlobalScale parse_global_scale(std::string_view text) {
  return parsed(kGlobalScales, "--global-scale", text);
}
ScaleSearch parse_scale_search(std::string_view text) {
  return parsed(kSearches, "--scale-search", text);
}
KvCacheHint parse_kv_cache_hint(std::string_view text) {
  return parsed(kHints, "--kv-cache-hint", text);
}

}  // namespace glint::quantize
