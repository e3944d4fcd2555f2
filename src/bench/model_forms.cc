#include "bench/model_forms.h"

#include <cstdlib>

#include "base/error.h"
#include "quantize/quantize.h"

namespace glint::bench {

ConvertedModel::ConvertedModel(const std::filesystem::path& source, quantize::Target target) {
  std::string pattern = (std::filesystem::temp_directory_path() / "glint-form-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    fail(ErrorKind::io, pattern, ": cannot make a folder for temporary files");
  above_ = pattern;
  quantize::QuantizeOptions options;
  options.source = source;
  options.out = folder();
  options.target = target;
  quantize::quantize(options, quantize::make_plan(options), {});
}

ConvertedModel::~ConvertedModel() {
  std::error_code ignored;
  std::filesystem::remove_all(above_, ignored);
}

}  // namespace glint::bench
