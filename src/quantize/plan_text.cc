#include <array>
#include <cstdio>
#include <map>

#include "base/error.h"
#include "checkpoint/report.h"
#include "quantize/plan.h"

namespace glint::quantize {

namespace {

std::string gigabytes(int64_t bytes) {
  std::array<char, 48> text{};
  (void)std::snprintf(text.data(), text.size(), "%.2f GB", static_cast<double>(bytes) / 1e9);
  return text.data();
}

std::string duration(double seconds) {
  std::array<char, 48> text{};
  if (seconds < 90) {
    (void)std::snprintf(text.data(), text.size(), "%.1f s", seconds);
  } else {
    (void)std::snprintf(text.data(), text.size(), "%.1f min", seconds / 60);
  }
  return text.data();
}

std::string conversions_text(const Plan& plan) {
  std::map<std::pair<Form, Form>, std::pair<int64_t, int64_t>> kinds;  // tensors and elements
  for (const Job& job : plan.jobs) {
    auto& [tensors, elements] = kinds[{job.from, job.to}];
    ++tensors;
    elements += job.elements();
  }
  std::string text;
  for (const auto& [forms, sizes] : kinds) {
    const bool copied = forms.first == forms.second;
    text += cat("  ", copied ? "copied as " : "", form_name(forms.first), copied ? "" : " to ",
                copied ? "" : form_name(forms.second), ": ", grouped_digits(sizes.first), " tensors, ",
                grouped_digits(sizes.second), " weights\n");
  }
  return text;
}

std::string times_text(const Plan& plan) {
  const auto bytes = static_cast<double>(plan.source_bytes() + plan.reread_bytes + plan.output_bytes());
  std::string text = "time, if the disk is the limit (reads and writes together):";
  const char* separator = " ";
  for (const double rate : {1.0, 3.0, 7.0, 14.0}) {
    text += cat(separator, duration(bytes / (rate * 1e9)), " at ", rate, " GB/s");
    separator = ", ";
  }
  return text + "\n";
}

}  // namespace

std::string plan_text(const Plan& plan, const QuantizeOptions& options) {
  std::string text =
      cat(options.source.string(), " to ", target_name(options.target), "\n", conversions_text(plan));
  if (plan.expert_bundles > 0) text += cat("expert bundles: ", grouped_digits(plan.expert_bundles), "\n");
  text += cat("in:  ", grouped_digits(plan.source_counts.total().tensors), " tensors, ",
              grouped_digits(plan.source_counts.total().bytes), " bytes in ", plan.files.size(), " shards\n");
  text +=
      cat("out: ", grouped_digits(plan.output_counts.total().tensors), " tensors, ",
          grouped_digits(plan.output_counts.total().bytes), " bytes in ", plan.shards.size(), " shards\n");
  text += cat("gate and up of one expert in two files: ", grouped_digits(plan.split_pairs), " pairs, ",
              plan.reread_bytes == 0
                  ? std::string("none read twice")
                  : cat(gigabytes(plan.reread_bytes), " read twice, because they lie further apart than the ",
                        gigabytes(options.hold_bytes), " of --hold-bytes"),
              "\n");
  text += cat("memory: at most ", gigabytes(plan.memory_bytes()), " of buffers with ", plan.workers,
              plan.workers == 1 ? " worker\n" : " workers\n");
  text += cat("disk: ", gigabytes(plan.output_bytes()), " beside ", options.out.string(), "\n");
  return text + times_text(plan) + cat("plan ", plan.hash, "\n");
}

}  // namespace glint::quantize
