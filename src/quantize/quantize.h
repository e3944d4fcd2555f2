// The conversion of a checkpoint from one folder to another, in bounded memory, safe against a kill at any
// moment.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "quantize/coder.h"
#include "quantize/plan.h"

namespace glint::quantize {

struct QuantizeHooks {
  /// Bytes read and written so far, of all; about ten times a second, on the calling thread.
  std::function<void(int64_t done, int64_t total)> progress;
  /// Tests only: called where a kill is most awkward, from any thread, with the name of the place.
  std::function<void(std::string_view place)> at_place;
  std::string program_version;
};

struct QuantizeOutcome {
  bool was_complete = false;  // an earlier run had finished: nothing was done
  double seconds = 0;         // of this run
  int64_t bytes_read = 0;
  int64_t peak_buffer_bytes = 0;
  CodingStats total;
};

/// Where the output grows until it is complete: OUT.partial beside OUT.
std::filesystem::path staging_folder(const std::filesystem::path& out);

/// Throws bad_input if the output exists or lies in the source (or the other way around), if an unfinished
/// conversion lies beside it and `resume` is not set, and io if the disk has too little room.
void check_places(const QuantizeOptions& options, const Plan& plan);

/// Runs the plan. Until all files are complete and flushed they lie in staging_folder; then the folder gets
/// its name in one step. After a kill or an error of the system what is finished stays there for `resume`. If
/// nothing is finished, or if the source is at fault, the folder goes away (not after a kill). Throws
/// bad_input (weights that are not finite, a source that changed) and io.
QuantizeOutcome quantize(const QuantizeOptions& options, const Plan& plan, const QuantizeHooks& hooks);

}  // namespace glint::quantize
