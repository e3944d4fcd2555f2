// glint doctor URL: asks a server what clients rely on, one line a check.

#include "bench/doctor/doctor.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "base/error.h"
#include "base/flags/flag_parse.h"
#include "base/flags/help.h"
#include "client_commands.h"

namespace glint {

namespace {

constexpr int kSomethingFailed = 1;

}  // namespace

int run_doctor_command(const std::vector<std::string>& words) {
  bench::DoctorOptions options;
  double timeout_s = options.timeout_s;
  FlagTable table("glint", "doctor",
                  "Asks an OpenAI-compatible server everything that clients rely on; one line a check: PASS, "
                  "DIFF (legal, "
                  "but not what vLLM does), FAIL (clients break), missing or skipped.",
                  "url");
  table.group("Doctor");
  table.add(value_flag("url", options.url, Text{})
                .metavar("URL")
                .help("The server's address, http:// or https://, with or without /v1"));
  table.add(value_flag("api-key", options.api_key, Text{})
                .metavar("KEY")
                .env("OPENAI_API_KEY")
                .help("Key to send with every request")
                .secret());
  table.add(value_flag("model", options.model, Text{})
                .metavar("NAME")
                .help("The model to ask; without it the first that the server lists"));
  table.add(value_flag("only", options.only, Text{})
                .metavar("TEXT")
                .help("Only the checks with this in their name, such as \"tools\""));
  table.add(
      toggle_flag("insecure", options.insecure).help("Do not check the certificate of an https server"));
  table.add(value_flag("timeout", timeout_s, Number{[](double x) { return x > 0 && x <= 86400; }, "above 0"})
                .metavar("SECONDS")
                .help("For one request"));
  const FlagReport report = parse_flags(table, words, [](const char* name) { return std::getenv(name); });
  if (report.help) {
    std::cout << help_text(table, *report.help, 100);
    return 0;
  }
  if (options.url.empty()) fail(ErrorKind::bad_input, "the following arguments are required: URL");
  options.timeout_s = timeout_s;
  const auto results = bench::run_doctor(options, std::cout);
  const bool failed = std::any_of(results.begin(), results.end(),
                                  [](const auto& result) { return result.verdict == bench::Verdict::fail; });
  return failed ? kSomethingFailed : 0;
}

}  // namespace glint
