#include "engine/row_scan_isa.h"
#include "engine/row_scan_loops.h"

namespace glint {

const RowScans row_scans_avx2 = {
    .peaks = peaks_of, .weights = weights_of, .shares = shares_of, .gather = gather_of, .race = race_of};

}  // namespace glint
