// The devices that a plan is made for: this machine's memory, or GPUs named on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace glint {

enum class DeviceKind { cpu, gpu };

struct DeviceMemory {
  DeviceKind kind = DeviceKind::cpu;
  std::string name = "CPU";  // "H200", or "141GB" as given
  int64_t count = 1;
  int64_t total_bytes = 0;     // of each; 0: not known
  int64_t free_bytes = 0;      // of each, at start; total_bytes for devices that are not here
  int compute_capability = 0;  // 90, 100, 120; 0: not known, or a CPU
  int ordinal = 0;             // of a GPU of this machine
};

/// The value of --device-memory: "8x141GB", "8xH200", "7xRTX6000", "4x80GiB", "96GB". Known cards and the
/// sizes in GB that they are sold under mean what the card itself reports (141GB: 143,771 MiB); other sizes
/// are taken as written: GB 10^9, GiB 2^30, MiB 2^20 bytes. Throws bad_input.
DeviceMemory parse_device_memory(std::string_view text);

/// MemTotal and MemAvailable of this machine.
DeviceMemory this_machine();

}  // namespace glint
