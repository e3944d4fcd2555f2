// glint doctor URL: asks a server everything that clients of the OpenAI API rely on and says where it
// differs.
//
// Each check gives one line.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bench/client/fetch.h"

namespace glint::bench {

enum class Verdict {
  pass,
  diff,     // legal, but not what vLLM and Glint do: clients may notice
  fail,     // clients break
  missing,  // the server does not have it
  skipped   // could not be asked; the line says why
};

[[nodiscard]] const char* verdict_name(Verdict verdict);

/// What one check has found. The worst finding decides.
class Findings {
 public:
  /// Clients break if this does not hold; returns whether it holds.
  template <class... Parts>
  bool must(bool holds, const Parts&... parts) {
    if (!holds) add(Verdict::fail, cat(parts...));
    return holds;
  }
  /// A difference if this does not hold.
  template <class... Parts>
  bool should(bool holds, const Parts&... parts) {
    if (!holds) add(Verdict::diff, cat(parts...));
    return holds;
  }
  template <class... Parts>
  void missing(const Parts&... parts) {
    add(Verdict::missing, cat(parts...));
  }
  template <class... Parts>
  void skip(const Parts&... parts) {
    add(Verdict::skipped, cat(parts...));
  }
  /// A remark that changes nothing.
  void note(const std::string& text) { notes_.push_back(text); }

  [[nodiscard]] Verdict verdict() const;
  /// The findings of the worst kind first, joined by "; ".
  [[nodiscard]] std::string text() const;

 private:
  void add(Verdict verdict, std::string text) { found_.emplace_back(verdict, std::move(text)); }
  std::vector<std::pair<Verdict, std::string>> found_;
  std::vector<std::string> notes_;
};

struct DoctorOptions {
  std::string url;      // with or without /v1 at its end
  std::string api_key;  // "": none
  std::string model;    // "": the first that the server lists
  std::string only;     // checks whose name holds this text; "": all
  bool insecure = false;
  double timeout_s = 120;  // of one request
};

struct CheckResult {
  std::string name;
  Verdict verdict = Verdict::pass;
  std::string text;
};

/// Runs the checks and prints a line for each as it is over, then a line of totals. Throws io if nothing
/// answers at the address, bad_input if no check has `only` in its name.
std::vector<CheckResult> run_doctor(const DoctorOptions& options, std::ostream& out);

}  // namespace glint::bench
