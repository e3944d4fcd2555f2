#include "bench/verify_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "base/error.h"
#include "bench/claim_study.h"
#include "bench/model_forms.h"
#include "engine/engine_factory.h"

namespace glint::bench {

namespace {

/// Shares of right answers that the claims want.
const std::vector<std::pair<std::string, double>> kShares{
    {"arithmetic", 0.97},  {"lookup", 0.95}, {"lookup_1500", 0.95}, {"tool_call", 0.98},
    {"tool_answer", 0.95}, {"copy", 0.95},   {"json", 0.95}};
constexpr double kAcceptance = 3.0;
constexpr double kMass = 0.9;
constexpr double kLoad = 0.1;  // an expert with less than a tenth of an even share is dead
constexpr double kFormsPoints = 1.0;
constexpr size_t kStudyTexts = 24;
// What a run that is not full takes of greedy's 200 texts.
constexpr int64_t kGreedyTexts = 60;
// float32 on both sides: what differs is the order of additions. The orders of all instruction sets
// came within 3.4e-5; the latent norms with another eps, the smallest fault tried, moved a logit by 2.3e-4.
constexpr double kLogitGap = 1e-4;
// Of the steps that another implementation's drafts leave: room for a tie or two.
constexpr double kStepsGap = 0.01;

std::string fixed(double value, int digits) {
  std::array<char, 64> text;
  const int bytes = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return {text.data(), static_cast<size_t>(bytes)};
}

std::string scientific(double value) {
  std::array<char, 64> text;
  const int bytes = std::snprintf(text.data(), text.size(), "%.1e", value);
  return {text.data(), static_cast<size_t>(bytes)};
}

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

class Verifier {
 public:
  Verifier(const VerifyOptions& options, const VerifyHooks& hooks) : options_(options), hooks_(hooks) {
    for (const std::string& claim : options.claims) {
      const auto& known = claim_names();
      if (std::find(known.begin(), known.end(), claim) != known.end()) continue;
      std::string choices;
      for (const std::string& name : known) choices += cat(choices.empty() ? "" : ", ", name);
      fail(ErrorKind::bad_input, "--claims ", claim, ": no such claim; choose from ", choices);
    }
  }

  std::vector<ClaimResult> run() {
    if (wants_answers()) run_answers();
    if (wants("lists") || wants("experts")) run_study();
    if (wants("greedy") || wants("logits") || wants("drafts")) run_exact();
    if (wants("forms")) run_forms();
    return std::move(results_);
  }

 private:
  [[nodiscard]] bool wants(const std::string& claim) const {
    return options_.claims.empty() ||
           std::find(options_.claims.begin(), options_.claims.end(), claim) != options_.claims.end();
  }
  /// Claims that need the answers of all examples: they are asked whether or not their own shares are wanted.
  [[nodiscard]] bool needs_all() const {
    for (const char* claim : {"thinking", "acceptance", "lists", "experts", "forms"}) {
      if (wants(claim)) return true;
    }
    return false;
  }
  [[nodiscard]] bool wants_answers() const {
    return needs_all() ||
           std::any_of(kShares.begin(), kShares.end(), [&](const auto& c) { return wants(c.first); });
  }

  [[nodiscard]] std::function<void(size_t)> progress(const std::string& what, size_t total) const {
    return [this, what, total](size_t done) { hooks_.progress(what, done, total); };
  }

  void add(ClaimResult result) {
    hooks_.result(result);
    results_.push_back(std::move(result));
  }

  void run_answers() {
    examples_ = read_claim_examples(options_.data / "claims.jsonl",
                                    needs_all() ? std::vector<std::string>{} : options_.claims,
                                    options_.examples_max);
    ClaimRunner runner(options_.folder, options_.runner);
    answers_ = runner.answer(examples_, progress("answers", examples_.size()));
    for (const auto& [claim, wanted] : kShares) {
      if (wants(claim)) add_share(claim, wanted);
    }
    if (wants("thinking")) add_thinking();
    if (wants("acceptance")) add_acceptance(runner.drafts());
  }

  void add_share(const std::string& claim, double wanted) {
    std::array<int64_t, kEfforts.size()> right{};
    std::array<int64_t, kEfforts.size()> count{};
    for (size_t i = 0; i < examples_.size(); ++i) {
      if (examples_[i].claim != claim) continue;
      ++count[examples_[i].effort];
      if (answer_is_right(examples_[i], answers_[i].answer)) ++right[examples_[i].effort];
    }
    const auto all = std::accumulate(count.begin(), count.end(), int64_t{0});
    if (all == 0)
      fail(ErrorKind::bad_input, (options_.data / "claims.jsonl").string(), ": no example of ", claim);
    const auto all_right = std::accumulate(right.begin(), right.end(), int64_t{0});
    const double share = static_cast<double>(all_right) / static_cast<double>(all);
    std::string detail = cat(all_right, " of ", all, " right (");
    for (size_t e = 0; e < kEfforts.size(); ++e) {
      detail += cat(e == 0 ? "" : ", ", kEfforts[e], " ", right[e], "/", count[e]);
    }
    add({claim, share >= wanted, share, wanted, percent(share), cat(">= ", fixed(100 * wanted, 0), " %"),
         detail + ")"});
  }

  void add_thinking() {
    std::array<double, kEfforts.size()> mean{};
    std::array<double, kEfforts.size()> count{};
    for (size_t i = 0; i < examples_.size(); ++i) {
      mean[examples_[i].effort] += static_cast<double>(answers_[i].reasoning_tokens);
      ++count[examples_[i].effort];
    }
    for (size_t e = 0; e < kEfforts.size(); ++e) mean[e] /= std::max(1.0, count[e]);
    const double least = std::min(mean[1] - mean[0], mean[2] - mean[1]);
    add({"thinking", least > 0, least, 0,
         cat(fixed(mean[0], 0), "/", fixed(mean[1], 0), "/", fixed(mean[2], 0)), "rising",
         cat("mean tokens at low/high/max, ", examples_.size(), " answers")});
  }

  void add_acceptance(const DraftCounts& drafts) {
    if (drafts.drafts == 0)
      fail(ErrorKind::bad_input, "acceptance: nothing was drafted: the model has no MTP layer");
    const auto steps = static_cast<double>(drafts.drafts);
    const double length = 1 + static_cast<double>(drafts.accepted_tokens) / steps;
    std::string places;
    for (size_t i = 0; i < static_cast<size_t>(options_.runner.drafts); ++i) {
      places += cat(i == 0 ? "" : " ", fixed(static_cast<double>(drafts.accepted_at[i]) / steps, 3));
    }
    add({"acceptance", length >= kAcceptance, length, kAcceptance, fixed(length, 2),
         cat(">= ", fixed(kAcceptance, 1)),
         cat("tokens a verified step, ", drafts.drafts, " steps; right up to place 1 to ",
             options_.runner.drafts, ": ", places)});
  }

  /// The longest answers' texts, and as many others evenly spread over the claims.
  [[nodiscard]] std::vector<std::vector<TokenId>> study_texts() const {
    std::vector<std::vector<TokenId>> texts;
    const size_t count = std::min(kStudyTexts, answers_.size());
    for (size_t i = 0; i < count; ++i) texts.push_back(answers_[i * answers_.size() / count].tokens);
    return texts;
  }

  void run_study() {
    const auto texts = study_texts();
    const ModelStudy study = study_model(options_.folder, texts, options_.runner.threads, options_.runner.isa,
                                         progress("lists and experts", texts.size()));
    if (wants("lists")) add_lists(study);
    if (wants("experts")) {
      add({"experts", study.load_least >= kLoad, study.load_least, kLoad, fixed(study.load_least, 2),
           cat(">= ", fixed(kLoad, 1)),
           cat("least load of an expert over an even share, most ", fixed(study.load_most, 2), ", ",
               study.tokens, " tokens")});
    }
  }

  void add_lists(const ModelStudy& study) {
    std::string layers;
    for (const double mass : study.mass) layers += cat(layers.empty() ? "" : " ", fixed(mass, 3));
    const double least = *std::min_element(study.mass.begin(), study.mass.end());
    add({"lists", study.mass_rows > 0 && least >= kMass, least, kMass, fixed(least, 3),
         cat(">= ", fixed(kMass, 1)),
         cat("of full attention inside the lists, least layer of ", layers, "; ", study.mass_rows, " rows")});
  }

  void run_exact() {
    RunnerOptions exact = options_.runner;
    exact.dtype = ops::ComputeDType::float32;
    exact.device = {};  // a GPU does not serve float32
    ClaimRunner runner(options_.folder, exact);
    if (wants("greedy")) run_greedy(runner);
    if (wants("logits") || wants("drafts")) run_reference(runner);
  }

  void run_greedy(ClaimRunner& runner) {
    const int64_t count = options_.greedy_count > 0 || options_.full ? options_.greedy_count : kGreedyTexts;
    const auto texts = read_greedy_texts(options_.data / "greedy.jsonl", count);
    const size_t equal = runner.equal_texts(texts, progress("greedy texts", texts.size()));
    add({"greedy", equal == texts.size(), static_cast<double>(equal), static_cast<double>(texts.size()),
         cat(equal, " of ", texts.size()), "all",
         cat("texts of transformers in float32, token for token; ", texts.size(), " of ",
             read_greedy_texts(options_.data / "greedy.jsonl", 0).size())});
  }

  void run_reference(ClaimRunner& runner) {
    const auto texts = read_reference_texts(options_.data / "reference.jsonl", options_.data / "greedy.jsonl",
                                            options_.greedy_count);
    const ReferenceOutcome outcome = runner.compare(texts, progress("logits and drafts", texts.size()));
    if (wants("logits")) {
      add({"logits", outcome.logit_gap <= kLogitGap, outcome.logit_gap, kLogitGap,
           scientific(outcome.logit_gap), cat("<= ", scientific(kLogitGap)),
           cat("farthest from transformers' in float32, ", outcome.logits, " tokens of ", texts.size(),
               " texts")});
    }
    if (wants("drafts")) add_drafts(texts, outcome);
  }

  void add_drafts(const std::vector<ReferenceText>& texts, const ReferenceOutcome& outcome) {
    int64_t steps = 0;
    for (const ReferenceText& text : texts) steps += text.steps;
    const auto wanted = static_cast<double>(steps);
    const double gap = std::abs(static_cast<double>(outcome.steps) - wanted) / wanted;
    add({"drafts", gap <= kStepsGap, static_cast<double>(outcome.steps), wanted, cat(outcome.steps, " steps"),
         cat(steps, " +- ", fixed(100 * kStepsGap, 0), " %"),
         cat("of five drafts that ", texts.size(),
             " of these texts take in float32; wanted: with another implementation's MTP layer")});
  }

  [[nodiscard]] int64_t right_of(const std::vector<ClaimExample>& examples,
                                 const std::vector<ExampleResult>& answers) const {
    int64_t right = 0;
    for (size_t i = 0; i < examples.size(); ++i)
      right += answer_is_right(examples[i], answers[i].answer) ? 1 : 0;
    return right;
  }

  /// The part of the examples that a run which is not full asks the conversions: every second of each claim.
  [[nodiscard]] std::vector<size_t> paired_sample() const {
    std::vector<size_t> chosen;
    std::map<std::string, size_t> seen;
    for (size_t i = 0; i < examples_.size(); ++i) {
      if (options_.full || seen[examples_[i].claim]++ % 2 == 0) chosen.push_back(i);
    }
    return chosen;
  }

  void run_forms() {
    std::vector<ClaimExample> examples;
    std::vector<ExampleResult> answers;
    for (const size_t i : paired_sample()) {
      examples.push_back(examples_[i]);
      answers.push_back(answers_[i]);
    }
    int64_t least = right_of(examples, answers);
    int64_t most = least;
    std::string detail = cat("right answers to the same ", examples.size(), " of ", examples_.size(),
                             " examples: as stored ", least);
    for (const auto& [name, target] :
         {std::pair("BF16", quantize::Target::bf16), std::pair("NVFP4", quantize::Target::nvfp4_experts)}) {
      const ConvertedModel converted(options_.folder, target);
      ClaimRunner runner(converted.folder(), options_.runner);
      const int64_t right =
          right_of(examples, runner.answer(examples, progress(cat("answers in ", name), examples.size())));
      detail += cat(", ", name, " ", right);
      least = std::min(least, right);
      most = std::max(most, right);
    }
    const double points = 100 * static_cast<double>(most - least) / static_cast<double>(examples.size());
    add({"forms", points <= kFormsPoints, points, kFormsPoints, cat(fixed(points, 1), " points"),
         "<= 1 point", detail});
  }

  const VerifyOptions& options_;
  const VerifyHooks& hooks_;
  std::vector<ClaimExample> examples_;
  std::vector<ExampleResult> answers_;
  std::vector<ClaimResult> results_;
};

}  // namespace

const std::vector<std::string>& claim_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& [claim, wanted] : kShares) list.push_back(claim);
    list.insert(list.end(),
                {"thinking", "acceptance", "lists", "experts", "greedy", "logits", "drafts", "forms"});
    return list;
  }();
  return names;
}

std::vector<ClaimResult> verify_model(const VerifyOptions& options, const VerifyHooks& hooks) {
  return Verifier(options, hooks).run();
}

}  // namespace glint::bench
