// The checks of single tensors behind verify_checkpoint.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quantize/checkpoint_view.h"
#include "quantize/options.h"
#include "quantize/verify.h"

namespace glint::quantize {

/// Faults of one tensor's stored values; `by_maximum`: a block at 448 is expected (of a gate or an up, in
/// either: `partner`).
std::vector<std::string> value_faults(const ViewTensor& tensor, const ViewTensor* partner, bool by_maximum);

/// Errors of a converted tensor beside its source.
TensorComparison compare_values(const ViewTensor& tensor, const ViewTensor& source);

/// The fault, if a copied tensor is not the source's bytes.
std::optional<std::string> copy_fault(const ViewTensor& tensor, const ViewTensor& source);

/// The fault, if coding the source again by the definition gives other bytes. `partner` is the source's up of
/// a gate or gate of an up, else nullptr. Scales by a search are taken as they are.
std::optional<std::string> recode_fault(const ViewTensor& tensor, const ViewTensor& source,
                                        const ViewTensor* partner, ScaleSearch search);

}  // namespace glint::quantize
