// A Jinja template, parsed once and rendered many times: our own interpreter of what published chat templates
// use, with the meaning that jinja2 3.1 gives it under Hugging Face's settings (trim_blocks, lstrip_blocks,
// loop controls, a json.dumps tojson, an immutable sandbox).
//
// Users' text is data: it never becomes template. Rendering is bounded in steps, depth and output, holds no
// state between calls and may run on several threads at once.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/jinja/value.h"

namespace glint::jinja {

struct Limits {
  int64_t steps_max = 10'000'000;             // expressions and statements
  int64_t text_bytes_max = int64_t{1} << 28;  // of the output, and of any string on the way
};

/// raise_exception("...") in the template: what() is that text alone.
class Raised : public Error {
 public:
  explicit Raised(const std::string& message) : Error(ErrorKind::bad_input, message) {}
};

class Template {
 public:
  /// `what` names the template in errors. Throws bad_input for a syntax error and unsupported for what is not
  /// there, both with line and column.
  static Template compile(std::string_view source, std::string_view what);

  /// Throws bad_input "`what`:line:column: ..." where Python would raise, Raised for raise_exception.
  [[nodiscard]] std::string render(const Dict& variables, const Limits& limits = {}) const;

 private:
  struct Parsed;
  explicit Template(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace glint::jinja
