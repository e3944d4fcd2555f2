#include "engine/device_memory.h"

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>

#include "base/error.h"

namespace glint {

namespace {

/// What cards report as their memory, and the size that they are sold under.
struct Card {
  std::string_view name;
  std::string_view sold_as;
  int64_t mib;
  int compute_capability;
};

constexpr std::array<Card, 5> kCards = {{{"H200", "141GB", 143'771, 90},
                                         {"H20", "141GB", 143'771, 90},
                                         {"H100", "80GB", 81'559, 90},
                                         {"B200", "180GB", 183'359, 100},
                                         {"RTX6000", "96GB", 97'887, 120}}};

struct Unit {
  std::string_view suffix;
  double bytes;
};

constexpr std::array<Unit, 3> kUnits = {{{"GiB", 0x1p30}, {"MiB", 0x1p20}, {"GB", 1e9}}};

constexpr int64_t kDevicesMax = 1024;
constexpr double kBytesMax = 0x1p50;

[[noreturn]] void refuse(std::string_view text) {
  std::string names;
  for (const Card& card : kCards) names += cat(names.empty() ? "" : ", ", card.name);
  fail(ErrorKind::bad_input, "argument --device-memory: invalid value: '", text,
       "' (expected 8x141GB, 8x143771MiB, or a card: 8x with one of ", names, ")");
}

int64_t parse_size(std::string_view size, std::string_view whole) {
  for (const Unit& unit : kUnits) {
    if (!size.ends_with(unit.suffix)) continue;
    const std::string_view digits = size.substr(0, size.size() - unit.suffix.size());
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const double bytes = value * unit.bytes;
    const bool whole_text = error == std::errc() && end == digits.data() + digits.size();
    if (!whole_text || !(bytes >= 1) || bytes > kBytesMax) break;
    return static_cast<int64_t>(std::llround(bytes));
  }
  refuse(whole);
}

}  // namespace

DeviceMemory parse_device_memory(std::string_view text) {
  DeviceMemory device;
  device.kind = DeviceKind::gpu;
  std::string_view size = text;
  if (const size_t x = text.find('x'); x != std::string_view::npos) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + x, device.count);
    if (error != std::errc() || end != text.data() + x || device.count < 1 || device.count > kDevicesMax) {
      refuse(text);
    }
    size = text.substr(x + 1);
  }
  device.name = size;
  for (const Card& card : kCards) {
    if (size != card.name && size != card.sold_as) continue;
    device.total_bytes = card.mib << 20;
    device.compute_capability = card.compute_capability;
    break;
  }
  if (device.total_bytes == 0) device.total_bytes = parse_size(size, text);
  device.free_bytes = device.total_bytes;
  return device;
}

DeviceMemory this_machine() {
  DeviceMemory machine;
  std::ifstream info("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  while (info >> key >> kib) {
    if (key == "MemTotal:") machine.total_bytes = kib * 1024;
    if (key == "MemAvailable:") machine.free_bytes = kib * 1024;
    info.ignore(64, '\n');
  }
  return machine;
}

}  // namespace glint
