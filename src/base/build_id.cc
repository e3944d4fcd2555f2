#include "base/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstring>

namespace glint {

namespace {

constexpr size_t aligned4(size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

/// The notes of one segment: a header, a name, a value, each padded to 4 bytes.
std::string id_in_notes(const char* notes, size_t bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  size_t at = 0;
  ElfW(Nhdr) note;
  while (at + sizeof note <= bytes) {
    std::memcpy(&note, notes + at, sizeof note);
    const size_t name = at + sizeof note;
    const size_t value = name + aligned4(note.n_namesz);
    at = value + aligned4(note.n_descsz);
    if (at > bytes) break;
    if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || std::memcmp(notes + name, "GNU", 4) != 0) {
      continue;
    }
    std::string id;
    for (size_t i = 0; i < note.n_descsz; ++i) {
      const auto byte = static_cast<unsigned char>(notes[value + i]);
      id += kDigits[byte >> 4];
      id += kDigits[byte & 15];
    }
    return id;
  }
  return "";
}

int take_from_program(dl_phdr_info* info, size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    // The address at which the loader put the segment.
    const char* const notes = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    const std::string id = id_in_notes(notes, segment.p_memsz);
    if (id.empty()) continue;
    *static_cast<std::string*>(out) = id;
    break;
  }
  return 1;  // the program itself comes first; libraries are not asked
}

}  // namespace

std::string build_id() {
  std::string id;
  dl_iterate_phdr(take_from_program, &id);
  return id;
}

}  // namespace glint
