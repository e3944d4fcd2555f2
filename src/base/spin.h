// For loops that look at a value of another thread instead of sleeping.
#pragma once

namespace glint {

/// Tells the processor that this is such a loop; nothing where there is no such instruction.
inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace glint
