#include "quantize/manifest.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace glint::quantize {

namespace {

constexpr int kManifestVersion = 1;
constexpr size_t kWorstShown = 10;
constexpr size_t kNamesShown = 20;
/// Relative RMSE of NVFP4 that weights of the usual distributions stay within.
constexpr double kExpectedLow = 0.07;
constexpr double kExpectedHigh = 0.12;

std::string recipe_name(const QuantizeOptions& options) {
  const std::string kv = cat("-kv_", kv_cache_hint_name(options.kv_cache_hint));
  switch (options.target) {
    case Target::nvfp4_experts:
      return cat("streaming/nvfp4_experts_only_input_scale1", kv, "-glm_moe_dsa");
    case Target::nvfp4_experts_fp8:
      return cat("streaming/nvfp4_experts_fp8_rest_input_scale1", kv, "-glm_moe_dsa");
    case Target::fp8_block:
      return "streaming/fp8_block_128x128-glm_moe_dsa";
    case Target::bf16:
      return "streaming/bf16-glm_moe_dsa";
  }
  return "?";
}

bool is_revision(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Where the hub's tools leave it: the snapshot's folder, or the notes beside a plain download.
std::string source_revision(const QuantizeOptions& options) {
  if (!options.source_revision.empty()) return options.source_revision;
  const std::filesystem::path source = std::filesystem::weakly_canonical(options.source);
  if (is_revision(source.filename().string())) return source.filename().string();
  const std::filesystem::path note = source / ".cache/huggingface/download/config.json.metadata";
  std::error_code error;
  if (!std::filesystem::is_regular_file(note, error)) return "";
  const std::string text = read_file(note, 1 << 16);
  const std::string line = text.substr(0, text.find('\n'));
  return is_revision(line) ? line : "";
}

/// "models--OWNER--NAME" of the hub's cache as OWNER/NAME, or else the folder's own name.
std::string source_name(const QuantizeOptions& options) {
  const std::filesystem::path source = std::filesystem::weakly_canonical(options.source);
  for (const std::filesystem::path& part : source) {
    const std::string name = part.string();
    if (!name.starts_with("models--")) continue;
    const size_t split = name.find("--", 8);
    if (split != std::string::npos) return name.substr(8, split - 8) + "/" + name.substr(split + 2);
  }
  return source.filename().string();
}

OrderedJson dtypes_json(const TensorCounts& counts) {
  OrderedJson dtypes = OrderedJson::object();
  for (const auto& [dtype, row] : counts.by_dtype) {
    dtypes[std::string(dtype_name(dtype))] = {{"tensors", row.tensors}, {"bytes", row.bytes}};
  }
  return dtypes;
}

OrderedJson counted(const TensorCounts& counts) {
  return {{"tensors", counts.total().tensors},
          {"tensor_bytes", counts.total().bytes},
          {"dtypes", dtypes_json(counts)}};
}

OrderedJson options_json(const QuantizeOptions& options) {
  return {{"format", target_name(options.target)},
          {"global_scale", global_scale_name(options.global_scale)},
          {"scale_search", scale_search_name(options.scale_search)},
          {"kv_cache_hint", kv_cache_hint_name(options.kv_cache_hint)},
          {"exclude", options.exclude},
          {"shard_bytes", options.shard_bytes},
          {"block_size", kBlock},
          {"input_scale", 1.0},
          {"gate_up_share_weight_scale_2", true},
          {"calibration_samples", 0}};
}

OrderedJson source_json(const Plan& plan, const QuantizeOptions& options, const Journal& journal) {
  OrderedJson source = {{"name", source_name(options)}, {"revision", source_revision(options)}};
  source.update(counted(plan.source_counts));
  OrderedJson files = OrderedJson::array();
  for (const SourceFile& file : plan.files) {
    files.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"sha256", journal.sources().at(file.name)}});
  }
  source["files"] = std::move(files);
  return source;
}

OrderedJson output_json(const Plan& plan, const std::vector<ManifestFile>& files) {
  OrderedJson output = counted(plan.output_counts);
  OrderedJson list = OrderedJson::array();
  for (const ManifestFile& file : files) {
    OrderedJson entry = {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}};
    if (file.tensors > 0) entry["tensors"] = file.tensors;
    list.push_back(std::move(entry));
  }
  output["files"] = std::move(list);
  return output;
}

OrderedJson error_json(const Plan& plan, size_t job, const std::vector<CodingStats>& stats) {
  return {{"tensor", plan.jobs[job].name},
          {"relative_rmse", stats[job].relative_rmse()},
          {"snr_db", snr_db(stats[job].power, stats[job].error)}};
}

OrderedJson errors_json(const Plan& plan, const QuantizeOptions& options,
                        const std::vector<CodingStats>& stats) {
  const CodingStats total = total_stats(stats);
  std::vector<size_t> order;
  int64_t outside = 0;
  for (size_t job = 0; job < stats.size(); ++job) {
    if (!stats[job].coded) continue;
    order.push_back(job);
    const double rmse = stats[job].relative_rmse();
    const bool nvfp4 = plan.jobs[job].to == Form::nvfp4 && !stats[job].all_zero();
    if (nvfp4 && (rmse < kExpectedLow || rmse > kExpectedHigh)) ++outside;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return stats[a].relative_rmse() > stats[b].relative_rmse(); });
  order.resize(std::min(order.size(), kWorstShown));
  OrderedJson worst = OrderedJson::array();
  for (const size_t job : order) worst.push_back(error_json(plan, job, stats));
  OrderedJson errors = {{"relative_rmse", total.relative_rmse()},
                        {"snr_db", snr_db(total.power, total.error)},
                        {"nvfp4_tensors_outside_0.07_to_0.12", outside},
                        {"worst", std::move(worst)}};
  if (options.scale_search == ScaleSearch::mse) errors["search_gain_percent"] = search_gain_percent(total);
  return errors;
}

OrderedJson anomalies_json(const Plan& plan, const std::vector<CodingStats>& stats) {
  OrderedJson zeros = OrderedJson::array();
  int64_t zero_count = 0;
  std::map<int64_t, int64_t> subnormal;
  double ratio = 1;
  std::string ratio_name;
  for (size_t job = 0; job < stats.size(); ++job) {
    const CodingStats& s = stats[job];
    if (s.all_zero() && static_cast<size_t>(++zero_count) <= kNamesShown)
      zeros.push_back(plan.jobs[job].name);
    if (s.subnormal_scales > 0) subnormal[plan.jobs[job].layer] += s.subnormal_scales;
    if (plan.jobs[job].partner < 0) continue;
    const float other = stats[static_cast<size_t>(plan.jobs[job].partner)].amax;
    if (other > 0 && s.amax / other > ratio) {
      ratio = s.amax / other;
      ratio_name = plan.jobs[job].name;
    }
  }
  OrderedJson by_layer = OrderedJson::object();
  for (const auto& [layer, count] : subnormal) by_layer[std::to_string(layer)] = count;
  return {{"all_zero_tensors", zero_count},
          {"all_zero_tensors_first", std::move(zeros)},
          {"block_scales_below_2^-6_by_layer", std::move(by_layer)},
          {"largest_gate_up_amax_ratio", {{"ratio", ratio}, {"tensor", ratio_name}}}};
}

}  // namespace

double snr_db(double power, double error) {
  constexpr double kNoError = 999;
  return error > 0 ? std::min(kNoError, 10 * std::log10(power / error)) : kNoError;
}

double search_gain_percent(const CodingStats& stats) {
  if (stats.error_of_max <= 0) return 0;
  return 100 * (1 - std::sqrt(stats.error / stats.error_of_max));
}

std::string report_text(const Plan& plan, const QuantizeOptions& options,
                        const std::vector<CodingStats>& stats) {
  std::string text;
  for (size_t job = 0; job < stats.size(); ++job) {
    if (!stats[job].coded) continue;
    OrderedJson line = error_json(plan, job, stats);
    line["form"] = form_name(plan.jobs[job].to);
    line["amax"] = stats[job].amax;
    line["block_scales_below_2^-6"] = stats[job].subnormal_scales;
    if (options.scale_search == ScaleSearch::mse)
      line["search_gain_percent"] = search_gain_percent(stats[job]);
    text += dump_json(line) + "\n";
  }
  return text;
}

std::string manifest_text(const Plan& plan, const QuantizeOptions& options,
                          const std::vector<CodingStats>& stats, const Journal& journal,
                          const RunFacts& facts, const std::vector<ManifestFile>& files) {
  const auto jobs = static_cast<int64_t>(plan.jobs.size());
  const OrderedJson manifest = {{"manifest_version", kManifestVersion},
                                {"recipe", recipe_name(options)},
                                {"program", {{"name", "glint"}, {"version", facts.program_version}}},
                                {"plan", plan.hash},
                                {"options", options_json(options)},
                                {"source", source_json(plan, options, journal)},
                                {"output", output_json(plan, files)},
                                {"counts",
                                 {{"converted_tensors", plan.quantized},
                                  {"copied_tensors", jobs - plan.quantized},
                                  {"expert_bundles", plan.expert_bundles},
                                  {"gate_up_pairs_in_two_files", plan.split_pairs}}},
                                {"errors", errors_json(plan, options, stats)},
                                {"anomalies", anomalies_json(plan, stats)},
                                {"run",
                                 {{"started", facts.started},
                                  {"finished", facts.finished},
                                  {"seconds", facts.seconds},
                                  {"resumed", facts.resumed},
                                  {"workers", plan.workers},
                                  {"instruction_set", isa_name(options.isa)},
                                  {"bytes_read", facts.bytes_read},
                                  {"bytes_written", plan.output_bytes()}}}};
  return manifest.dump(2) + "\n";
}

}  // namespace glint::quantize
