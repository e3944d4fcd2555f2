#include "flags/launcher_variables.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.h"

namespace glint {

namespace {

/// The first one whose name it is, or whose '*' it fits, counts.
struct Silent {
  std::string_view name;
  std::string_view reason;
};

constexpr Silent kSilent[] = {
    {"VLLM_ROCM_*", "there is no AMD GPU"},
    {"VLLM_HOST_IP", "one process computes all ranks; the address to listen on is --host"},
    {"VLLM_PORT", "one process computes all ranks; the port to listen on is --port"},
    {"SGLANG_HOST_IP", "one process computes all ranks; the address to listen on is --host"},
    {"SGLANG_PORT", "one process computes all ranks; the port to listen on is --port"},
    {"LMCACHE_*", "pages beyond memory are kept by --kv-disk-dir"},
    {"DYN_*", "there are no connectors between servers"},
    {"VLLM_*", "no flag of this program reads it"},
    {"SGLANG_*", "no flag of this program reads it"},
    {"SGL_*", "no flag of this program reads it"},
};

bool fits(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

int64_t number_of(const Environment& environment, const char* name, int64_t unset) {
  const char* const text = environment(name);
  if (text == nullptr || *text == '\0') return unset;
  try {
    return WholeNumber{0, 1 << 20}(text);
  } catch (const Error& error) {
    fail(ErrorKind::bad_input, "environment variable ", name, ": ", error.what());
  }
}

}  // namespace

void check_launcher(const Environment& environment) {
  constexpr std::string_view kAdvice =
      ": one process computes all ranks, so start glint once and without a launcher (torchrun), or unset it";
  if (const int64_t size = number_of(environment, "WORLD_SIZE", 1); size > 1) {
    fail(ErrorKind::bad_input, "environment variable WORLD_SIZE ", size, kAdvice);
  }
  for (const char* name : {"RANK", "LOCAL_RANK"}) {
    if (const int64_t rank = number_of(environment, name, 0); rank > 0)
      fail(ErrorKind::bad_input, "environment variable ", name, " ", rank, kAdvice);
  }
}

std::vector<std::string> variables_without_effect(const FlagTable& table,
                                                  const std::vector<std::string>& set) {
  std::set<std::string, std::less<>> read;
  for (const Flag& flag : table.flags()) read.insert(flag.environment.begin(), flag.environment.end());
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> by_reason;
  for (const std::string& name : set) {
    if (read.contains(name)) continue;
    const auto* const found = std::find_if(std::begin(kSilent), std::end(kSilent),
                                           [&](const Silent& silent) { return fits(silent.name, name); });
    if (found == std::end(kSilent)) continue;
    auto same = std::find_if(by_reason.begin(), by_reason.end(),
                             [&](const auto& reason) { return reason.first == found->reason; });
    if (same == by_reason.end()) same = by_reason.insert(same, {found->reason, {}});
    same->second.emplace_back(name);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : by_reason) {
    std::string list;
    for (const std::string_view name : names) list.append(list.empty() ? "" : ", ").append(name);
    lines.push_back(
        cat(list, names.size() == 1 ? " has" : " have", " no effect in this engine (", reason, ")"));
  }
  return lines;
}

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals + 1 == text.size()) continue;
    names.emplace_back(text.substr(0, equals));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace glint
