// The proof behind `glint verify`: what the small model's card claims, measured on this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/claim_runner.h"

namespace glint::bench {

/// What can be asked for, in the order of the report.
///   arithmetic, lookup, lookup_1500, tool_call, tool_answer, copy, json: shares of right answers
///   thinking: mean tokens of thinking rise from effort to effort
///   acceptance: tokens of a verified step with five drafts
///   lists: the share of full attention that the index lists hold, least layer
///   experts: the least load of an expert over an even share
///   greedy: texts of transformers in float32 that come out token for token
///   logits: the largest distance to transformers' logits on some of them, float32
///   drafts: the steps that these take, which is what drafts save, beside another implementation's MTP layer
///   forms: the share of right answers of the BF16 and NVFP4 conversions against the stored form's
const std::vector<std::string>& claim_names();

struct VerifyOptions {
  std::filesystem::path folder;     // of the model
  std::filesystem::path data;       // holds claims.jsonl and greedy.jsonl
  std::vector<std::string> claims;  // empty: all
  RunnerOptions runner;             // of all but lists, experts (float32) and greedy (float32)
  /// False: a part of what greedy and forms could be run on (the details say how much), so that all of it
  /// takes less than a minute on two cores. True: everything there is.
  bool full = false;
  int64_t examples_max = 0;  // of each claim of answers; 0: all there are
  int64_t greedy_count = 0;  // 0: as `full` says
};

struct ClaimResult {
  std::string name;
  bool passed = false;
  double measured = 0, wanted = 0;
  std::string measured_text, wanted_text;  // as a person reads them
  std::string detail;                      // what was run, and parts of the figure
};

struct VerifyHooks {
  /// What runs now, and how much of it is done.
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
  /// A claim has been measured.
  std::function<void(const ClaimResult& result)> result;
};

/// Throws bad_input for an unknown claim, or a claim that the model or the data cannot answer.
std::vector<ClaimResult> verify_model(const VerifyOptions& options, const VerifyHooks& hooks);

}  // namespace glint::bench
