#include "engine/plan_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

#include "base/error.h"
#include "checkpoint/report.h"

namespace glint {

namespace {

constexpr int64_t kLabelWidth = 34;
constexpr int64_t kColumnWidth = 11;

std::string number_text(double value, int digits) {
  std::array<char, 48> text{};
  (void)std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string gib(int64_t bytes, int digits) {
  return number_text(static_cast<double>(bytes) / 0x1p30, digits);
}

/// "877k", "5.12M".
std::string tokens_text(int64_t tokens) {
  if (tokens >= 1'000'000) return number_text(static_cast<double>(tokens) / 1e6, 2) + "M";
  if (tokens >= 10'000) return cat(tokens / 1000, "k");
  return cat(tokens);
}

std::string padded(const std::string& text, int64_t width, bool right) {
  const auto size = static_cast<size_t>(width);
  if (text.size() >= size) return text;
  const std::string space(size - text.size(), ' ');
  return right ? space + text : text + space;
}

int64_t bytes_of(const std::vector<PlanPart>& parts, std::string_view name) {
  for (const PlanPart& part : parts) {
    if (part.name == name) return part.bytes;
  }
  return 0;
}

bool is_gpu(const MemoryPlan& plan) {
  return plan.request.device.kind == DeviceKind::gpu;
}

/// "GPU 0-7" of a stage with eight ranks, "CPU".
std::string device_text(const MemoryPlan& plan, size_t stage) {
  if (!is_gpu(plan)) return "CPU";
  const int64_t ranks = plan.request.layout.tensor_parallel;
  const int64_t first = static_cast<int64_t>(stage) * ranks;
  return ranks == 1 ? cat("GPU ", first) : cat("GPU ", first, "-", first + ranks - 1);
}

std::string layers_text(const StagePlan& stage) {
  return cat(stage.first_layer, "-", stage.first_layer + stage.layers - 1, stage.has_mtp ? "+MTP" : "");
}

/// Rows of a table whose columns are the stages.
class Table {
 public:
  explicit Table(const MemoryPlan& plan) : plan_(plan) {}

  void row(const std::string& label, const std::function<std::string(const StagePlan&)>& cell) {
    text_ += padded(label, kLabelWidth, false);
    for (const StagePlan& stage : plan_.stages) text_ += padded(cell(stage), kColumnWidth, true);
    text_ += "\n";
  }
  void bytes(const std::string& label, const std::function<int64_t(const StagePlan&)>& cell) {
    row(label, [&](const StagePlan& stage) { return gib(cell(stage), 2); });
  }
  /// Every part that any stage has, in the order in which the stages name them.
  void parts(const std::string& total,
             const std::function<const std::vector<PlanPart>&(const StagePlan&)>& of) {
    std::vector<std::string> names;
    for (const StagePlan& stage : plan_.stages) {
      for (const PlanPart& part : of(stage)) {
        if (std::find(names.begin(), names.end(), part.name) == names.end()) names.push_back(part.name);
      }
    }
    if (names.empty()) return;
    bytes(total, [&](const StagePlan& stage) { return sum_of(of(stage)); });
    for (const std::string& name : names) {
      bytes("  " + name, [&](const StagePlan& stage) { return bytes_of(of(stage), name); });
    }
  }
  std::string text() { return std::move(text_); }

 private:
  const MemoryPlan& plan_;
  std::string text_;
};

void add_step(Table& table, const MemoryPlan& plan) {
  table.bytes("step", [](const StagePlan& stage) { return stage.step.peak_bytes; });
  table.bytes("  activations at the peak",
              [](const StagePlan& stage) { return stage.step.activation_bytes; });
  table.bytes("  workspace at the peak",
              [](const StagePlan& stage) { return stage.step.peak_bytes - stage.step.activation_bytes; });
  std::vector<std::string_view> names;
  for (const StagePlan& stage : plan.stages) {
    for (const auto& operation : stage.step.operations) {
      if (std::find(names.begin(), names.end(), operation.name) == names.end())
        names.push_back(operation.name);
    }
  }
  for (const std::string_view name : names) {
    table.bytes(cat("    alone: ", name),
                [&](const StagePlan& stage) { return stage.step.scratch_of(name); });
  }
  const bool speculates = plan.request.engine.num_speculative_tokens != 0;
  if (speculates) {
    table.bytes("    inside: carried between drafts",
                [](const StagePlan& stage) { return stage.hidden_carry_bytes; });
  }
}

std::string head_text(const MemoryPlan& plan) {
  const PlanRequest& request = plan.request;
  std::string text = cat("memory plan, GiB: ", format_name(request.format), " checkpoint on ");
  if (is_gpu(plan)) text += cat(request.device.count, " x ");
  text += cat(request.device.name, " of ", gib(request.device.total_bytes, 2), "; tensor parallel ",
              request.layout.tensor_parallel, request.layout.expert_parallel ? " with whole experts" : "",
              ", pipeline parallel ", plan.partition.size());
  if (plan.partition.size() > 1) text += cat(" (", partition_text(plan.partition), ")");
  const CacheStriping striping = striping_of(request.layout);
  text += cat("; cache ", kv_cache_dtype_name(*request.engine.kv_cache_dtype), ", ", striping_name(striping));
  if (striping != CacheStriping::replicated) text += cat(" over ", request.layout.context_parallel);
  return text + "\n";
}

std::string fits_text(const MemoryPlan& plan) {
  const EngineOptions& options = plan.request.engine;
  std::string text =
      cat("one step: ", options.max_num_batched_tokens, " rows, ", options.max_num_seqs, " sequences, ",
          drafts_max(options), " drafts each, context up to ", plan.max_model_len, "\n");
  text += cat("cache: ", grouped_digits(plan.tokens()), " tokens in ", grouped_digits(plan.pages),
              " pages of 64\n");
  text += cat("longest request", plan.length_is_automatic ? " (auto)" : "", ": ",
              grouped_digits(plan.max_model_len), " tokens, of which ", number_text(plan.concurrency(), 2),
              " fit together\n");
  if (is_gpu(plan) && plan.request.layout.tensor_parallel > 1) {
    text += cat("over the ", plan.request.layout.tensor_parallel, " ranks of a stage would fit: ");
    for (size_t i = 0; i < plan.tokens_by_striping.size(); ++i) {
      text += cat(i == 0 ? "" : ", ", grouped_digits(plan.tokens_by_striping[i]), " tokens ",
                  striping_name(static_cast<CacheStriping>(i)));
    }
    text += "\n";
  }
  for (const std::string& note : plan.notes) text += cat("note: ", note, "\n");
  return text;
}

OrderedJson parts_json(const std::vector<PlanPart>& parts) {
  OrderedJson json = OrderedJson::object();
  for (const PlanPart& part : parts) json[part.name] = part.bytes;
  return json;
}

OrderedJson stage_json(const MemoryPlan& plan, size_t index) {
  const StagePlan& stage = plan.stages[index];
  OrderedJson operations = OrderedJson::object();
  for (const auto& operation : stage.step.operations)
    operations[std::string(operation.name)] = operation.scratch_bytes;
  return {{"devices", device_text(plan, index)},
          {"first_layer", stage.first_layer},
          {"layers", stage.layers},
          {"has_mtp", stage.has_mtp},
          {"weights", parts_json(stage.weights)},
          {"weights_bytes", sum_of(stage.weights)},
          {"speculation", parts_json(stage.speculation)},
          {"hidden_carry_bytes", stage.hidden_carry_bytes},
          {"cache", parts_json(stage.cache)},
          {"cache_bytes", sum_of(stage.cache)},
          {"cache_budget_bytes", stage.budget_bytes},
          {"cache_bytes_per_token", rank_bytes_per_token(plan, stage)},
          {"step_bytes", stage.step.peak_bytes},
          {"activation_bytes", stage.step.activation_bytes},
          {"workspace", operations},
          {"fixed", parts_json(stage.fixed)},
          {"free_bytes", stage.free_bytes}};
}

}  // namespace

int64_t rank_bytes_per_token(const MemoryPlan& plan, const StagePlan& stage) {
  const int64_t ranks = plan.request.layout.context_parallel;
  return striped_bytes(stage.token.all_latent(), stage.token.all_index(), striping_of(plan.request.layout),
                       ranks) /
         ranks;
}

std::string plan_table(const MemoryPlan& plan) {
  Table table(plan);
  table.row("device", [&](const StagePlan& stage) {
    return device_text(plan, static_cast<size_t>(&stage - plan.stages.data()));
  });
  table.row("layers", layers_text);
  table.parts(
      "weights", [](const StagePlan& stage) -> const auto& { return stage.weights; });
  table.parts(
      "speculation", [](const StagePlan& stage) -> const auto& { return stage.speculation; });
  table.parts(
      "cache", [](const StagePlan& stage) -> const auto& { return stage.cache; });
  add_step(table, plan);
  table.parts(
      "fixed", [](const StagePlan& stage) -> const auto& { return stage.fixed; });
  table.bytes("free", [](const StagePlan& stage) { return stage.free_bytes; });
  table.row("cache bytes per token and device",
            [&](const StagePlan& stage) { return grouped_digits(rank_bytes_per_token(plan, stage)); });
  return head_text(plan) + table.text() + fits_text(plan);
}

std::vector<std::string> plan_lines(const MemoryPlan& plan) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    std::string line =
        cat("memory plan (", device_text(plan, i), ", GiB): weights ",
            gib(sum_of(stage.weights) + sum_of(stage.speculation), 1), " | kv ", gib(sum_of(stage.cache), 1),
            " (", tokens_text(plan.tokens()), " tok) | workspace ", gib(stage.step.peak_bytes, 1), " [");
    for (const auto& operation : stage.step.operations) {
      if (operation.scratch_bytes < stage.step.peak_bytes / 50) break;  // the largest come first
      line += cat(operation.name, " ", gib(operation.scratch_bytes, 1), ", ");
    }
    line += cat("activations ", gib(stage.step.activation_bytes, 1), "]");
    for (const std::string_view name : {"graphs", "comm", "context"}) {
      if (const int64_t bytes = bytes_of(stage.fixed, name); bytes > 0)
        line += cat(" | ", name, " ", gib(bytes, 1));
    }
    lines.push_back(cat(line, " | free ", gib(stage.free_bytes, 1)));
  }
  return lines;
}

std::vector<std::string> startup_lines(const MemoryPlan& plan) {
  std::vector<std::string> lines;
  lines.push_back(cat("Available KV cache memory: ", gib(sum_of(plan.stages.front().cache), 2), " GiB"));
  // Scripts written for vLLM look for "GPU", whatever the device is.
  lines.push_back(cat("GPU KV cache size: ", plan.tokens(), " tokens"));
  lines.push_back(cat("Maximum concurrency for ", plan.max_model_len,
                      " tokens per request: ", number_text(plan.concurrency(), 2), "x"));
  lines.push_back(cat("Chunked prefill is enabled with max_num_batched_tokens=",
                      plan.request.engine.max_num_batched_tokens, "."));
  return lines;
}

std::string sglang_startup_line(const MemoryPlan& plan) {
  const EngineOptions& options = plan.request.engine;
  return cat("max_total_num_tokens=", plan.tokens(),
             ", chunked_prefill_size=", options.max_num_batched_tokens,
             ", max_prefill_tokens=", options.max_num_batched_tokens,
             ", max_running_requests=", options.max_num_seqs, ", context_len=", plan.max_model_len,
             ", available_gpu_mem=", gib(plan.stages.front().free_bytes, 2), " GB");
}

OrderedJson plan_json(const MemoryPlan& plan) {
  const PlanRequest& request = plan.request;
  OrderedJson stages = OrderedJson::array();
  for (size_t i = 0; i < plan.stages.size(); ++i) stages.push_back(stage_json(plan, i));
  OrderedJson striping = OrderedJson::object();
  for (size_t i = 0; i < plan.tokens_by_striping.size(); ++i) {
    striping[std::string(striping_name(static_cast<CacheStriping>(i)))] = plan.tokens_by_striping[i];
  }
  return {{"format", format_name(request.format)},
          {"device", request.device.name},
          {"device_count", request.device.count},
          {"device_bytes", request.device.total_bytes},
          {"tensor_parallel", request.layout.tensor_parallel},
          {"expert_parallel", request.layout.expert_parallel},
          {"decode_context_parallel", request.layout.context_parallel},
          {"cache_striping", striping_name(striping_of(request.layout))},
          {"partition", plan.partition},
          {"kv_cache_dtype", kv_cache_dtype_name(*request.engine.kv_cache_dtype)},
          {"max_model_len", plan.max_model_len},
          {"max_num_seqs", request.engine.max_num_seqs},
          {"max_num_batched_tokens", request.engine.max_num_batched_tokens},
          {"num_speculative_tokens", request.engine.num_speculative_tokens},
          {"pages", plan.pages},
          {"tokens", plan.tokens()},
          {"tokens_by_striping", striping},
          {"stages", stages},
          {"notes", plan.notes}};
}

}  // namespace glint
