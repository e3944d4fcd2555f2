#include "bench/doctor/doctor.h"

#include <algorithm>
#include <array>
#include <ostream>

#include "base/error.h"
#include "bench/doctor/session.h"

namespace glint::bench {

namespace {

int severity(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return 0;
    case Verdict::skipped:
      return 1;
    case Verdict::missing:
      return 2;
    case Verdict::diff:
      return 3;
    case Verdict::fail:
      return 4;
  }
  return 4;
}

std::vector<DoctorCheck> all_checks() {
  std::vector<DoctorCheck> checks;
  add_basic_checks(checks);
  add_chat_checks(checks);
  add_sampling_checks(checks);
  add_completion_checks(checks);
  add_tool_checks(checks);
  add_error_checks(checks);
  add_structured_checks(checks);
  add_other_api_checks(checks);
  return checks;
}

CheckResult run_check(const DoctorCheck& check, const Session& session) {
  Findings findings;
  try {
    check.run(session, findings);
  } catch (const std::exception& error) {
    findings.must(false, "the answer has another shape: ", error.what());
  }
  std::string text = findings.text();
  // One line, whatever the server said.
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return {check.name, findings.verdict(), std::move(text)};
}

void print_totals(const std::vector<CheckResult>& results, std::ostream& out) {
  const auto count = [&](Verdict verdict) {
    return std::count_if(results.begin(), results.end(),
                         [&](const auto& one) { return one.verdict == verdict; });
  };
  out << results.size() << " checks: " << count(Verdict::pass) << " passed, " << count(Verdict::diff)
      << " differ, " << count(Verdict::fail) << " failed, " << count(Verdict::missing) << " missing, "
      << count(Verdict::skipped) << " skipped\n";
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "PASS";
    case Verdict::diff:
      return "DIFF";
    case Verdict::fail:
      return "FAIL";
    case Verdict::missing:
      return "missing";
    case Verdict::skipped:
      return "skipped";
  }
  return "?";
}

Verdict Findings::verdict() const {
  Verdict worst = Verdict::pass;
  for (const auto& [verdict, text] : found_) {
    if (severity(verdict) > severity(worst)) worst = verdict;
  }
  return worst;
}

std::string Findings::text() const {
  constexpr size_t kMax = 6;
  std::vector<std::pair<Verdict, std::string>> sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return severity(a.first) > severity(b.first); });
  std::string text;
  for (size_t i = 0; i < std::min(sorted.size(), kMax); ++i) text += (i == 0 ? "" : "; ") + sorted[i].second;
  if (sorted.size() > kMax) text += cat("; and ", sorted.size() - kMax, " more");
  for (const std::string& note : notes_) text += (text.empty() ? "" : "; ") + note;
  return text;
}

std::vector<CheckResult> run_doctor(const DoctorOptions& options, std::ostream& out) {
  std::vector<DoctorCheck> checks = all_checks();
  std::erase_if(checks,
                [&](const DoctorCheck& check) { return check.name.find(options.only) == std::string::npos; });
  if (checks.empty())
    fail(ErrorKind::bad_input, "argument --only: no check has \"", options.only, "\" in its name");
  const Session session(options);
  std::vector<CheckResult> results;
  for (const DoctorCheck& check : checks) {
    results.push_back(run_check(check, session));
    const CheckResult& result = results.back();
    std::string verdict = verdict_name(result.verdict);
    verdict.resize(8, ' ');
    out << verdict << result.name << (result.text.empty() ? "" : ": ") << result.text << "\n" << std::flush;
  }
  print_totals(results, out);
  return results;
}

}  // namespace glint::bench
