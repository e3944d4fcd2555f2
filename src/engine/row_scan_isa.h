// The tables of row_scan.h, one a file and instruction set.
#pragma once

#include "engine/row_scan.h"

namespace glint {

extern const RowScans row_scans_portable;
#ifdef GLINT_X86_64
extern const RowScans row_scans_avx2;
extern const RowScans row_scans_avx512;
#endif

}  // namespace glint
