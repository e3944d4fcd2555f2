#include "quantize/plan_source.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/shard_set.h"
#include "checkpoint/tensor_resolver.h"

namespace glint::quantize {

namespace {

constexpr std::string_view kWeight = "weight";

/// The tensors of all shards by name.
class SourceTensors {
 public:
  explicit SourceTensors(const std::vector<SafetensorsFile>& shards) : shards_(shards) {
    for (uint32_t file = 0; file < shards.size(); ++file) {
      for (const TensorEntry& entry : shards[file].table().tensors())
        places_.try_emplace(entry.name, file, &entry);
    }
  }

  [[nodiscard]] const TensorEntry* find(const std::string& name) const {
    const auto at = places_.find(name);
    return at == places_.end() ? nullptr : at->second.second;
  }

  [[nodiscard]] SourceRange range(const std::string& name) const {
    const auto& [file, entry] = places_.at(name);
    return {file, shards_[file].table().data_begin() + entry->begin, entry->bytes()};
  }

 private:
  const std::vector<SafetensorsFile>& shards_;
  std::unordered_map<std::string_view, std::pair<uint32_t, const TensorEntry*>> places_;
};

/// Names, dtypes, shapes, nothing missing, nothing unknown: the same checks as for serving.
void check_complete(const ModelConfig& config, const ShardSet& set) {
  TensorResolver resolver(config, set.shards, set.listing);
  for (const ModelTensor& tensor : model_tensors(config)) {
    if (tensor.shape.size() == 1) {
      resolver.vector(tensor);
    } else {
      resolver.matrix(tensor);
    }
  }
  resolver.refuse_unknown(set.shards);
}

SourceFile source_file(const SafetensorsFile& shard) {
  struct stat status {};
  if (::stat(shard.path().c_str(), &status) != 0) {
    fail(ErrorKind::io, shard.path().string(), ": cannot stat: ", std::strerror(errno));
  }
  return {shard.path().filename().string(), shard.file_bytes(), shard.table().data_begin(),
          int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec, status.st_ino};
}

Form source_form(const ModelTensor& tensor, const SourceTensors& source) {
  const TensorEntry* const entry = source.find(tensor.name);
  if (entry == nullptr) {
    fail(ErrorKind::unsupported, tensor.name,
         " is stored as weight_packed (compressed-tensors), which is not converted: "
         "start from the BF16 or FP8 checkpoint");
  }
  switch (entry->dtype) {
    case Dtype::f32:
      return Form::f32;
    case Dtype::f8_e4m3:
      return Form::fp8;
    case Dtype::u8:
      return Form::nvfp4;
    default:
      return Form::bf16;
  }
}

Form target_form(const ModelTensor& tensor, Form from, const ModelConfig& config,
                 const QuantizeOptions& options) {
  if (from == Form::f32) return Form::f32;
  const bool projection = tensor.role == TensorRole::projection || tensor.role == TensorRole::routed_expert;
  if (!projection || options.target == Target::bf16) return Form::bf16;
  if (is_excluded(module_of(tensor.name), options.exclude)) return Form::bf16;
  if (options.target == Target::fp8_block) return Form::fp8;
  if (tensor.role == TensorRole::routed_expert && tensor.layer < config.num_hidden_layers) return Form::nvfp4;
  return options.target == Target::nvfp4_experts_fp8 ? Form::fp8 : Form::bf16;
}

/// Names of a weight's stored tensors, in the order of the form.
std::vector<std::string> stored_names(const std::string& name, Form form, const SourceTensors& source) {
  if (form == Form::fp8) return {name, name + "_scale_inv"};
  if (form != Form::nvfp4) return {name};
  std::vector<std::string> names = {name, name + "_scale", name + "_scale_2"};
  const std::string input = module_of(name) + ".input_scale";
  if (source.find(input) != nullptr) names.push_back(input);
  return names;
}

void check_conversion(const Job& job) {
  if (!job.converts()) return;
  if (job.from == Form::nvfp4 && job.to != Form::bf16) {
    fail(ErrorKind::unsupported, job.name,
         " is NVFP4 in the source, which can become bf16 only: start from the "
         "BF16 or FP8 checkpoint, or give --format bf16");
  }
  if (job.to == Form::nvfp4 && job.shape[1] % 16 != 0) {
    fail(ErrorKind::bad_input, job.name, ": ", shape_text(job.shape),
         " cannot be NVFP4, which needs columns "
         "(hidden_size and moe_intermediate_size) in multiples of 16: --exclude it");
  }
}

bool is_module(std::string_view name, std::string_view projection) {
  return name.size() > projection.size() + 8 && name.substr(0, name.size() - 7).ends_with(projection);
}

/// Gate and up of one expert follow each other in the plan of the model.
void pair_up(Plan& plan) {
  for (size_t i = 0; i + 1 < plan.jobs.size(); ++i) {
    Job& gate = plan.jobs[i];
    Job& up = plan.jobs[i + 1];
    if (gate.role != TensorRole::routed_expert || !is_module(gate.name, ".gate_proj")) continue;
    GLINT_CHECK(is_module(up.name, ".up_proj"));
    if ((gate.to == Form::nvfp4) != (up.to == Form::nvfp4)) {
      fail(ErrorKind::bad_input, "--exclude splits ", gate.name, " from ", up.name,
           ", which share weight_scale_2: exclude both or neither");
    }
    if (gate.to != Form::nvfp4 || !gate.converts()) continue;
    gate.partner = static_cast<int64_t>(i) + 1;
    up.partner = static_cast<int64_t>(i);
    if (gate.stored[0].file != up.stored[0].file) ++plan.split_pairs;
  }
}

void make_lanes(Plan& plan) {
  plan.lanes.resize(plan.files.size());
  for (uint32_t file = 0; file < plan.files.size(); ++file) plan.lanes[file].file = file;
  for (uint32_t job_number = 0; job_number < plan.jobs.size(); ++job_number) {
    const Job& job = plan.jobs[job_number];
    for (uint32_t i = 0; i < job.stored_count; ++i) {
      LaneStep step;
      step.job = job_number;
      step.range = job.stored[i];
      if (!job.converts()) {
        step.kind = LaneStep::Kind::copy;
      } else if (i == 0) {
        step.kind = LaneStep::Kind::convert;
      }
      plan.lanes[step.range.file].steps.push_back(step);
    }
  }
  for (Lane& lane : plan.lanes) {
    std::sort(lane.steps.begin(), lane.steps.end(),
              [](const LaneStep& a, const LaneStep& b) { return a.range.begin < b.range.begin; });
  }
}

}  // namespace

std::string module_of(std::string_view tensor) {
  return std::string(tensor.ends_with(".weight") ? tensor.substr(0, tensor.size() - kWeight.size() - 1)
                                                 : tensor);
}

bool is_excluded(const std::string& module, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), module.c_str(), 0) == 0;
  });
}

std::vector<TensorSpec> output_specs(const Job& job) {
  const Shape& shape = job.shape;
  switch (job.to) {
    case Form::fp8:
      return {{job.name, Dtype::f8_e4m3, shape},
              {job.name + "_scale_inv", Dtype::f32, fp8_scale_shape(shape)}};
    case Form::nvfp4: {
      std::vector<TensorSpec> specs = {{job.name, Dtype::u8, {shape[0], shape[1] / 2}},
                                       {job.name + "_scale", Dtype::f8_e4m3, {shape[0], shape[1] / 16}},
                                       {job.name + "_scale_2", Dtype::f32, {}},
                                       {module_of(job.name) + ".input_scale", Dtype::f32, {}}};
      if (!job.converts()) specs.resize(job.stored_count);
      return specs;
    }
    default:
      return {{job.name, job.to == Form::f32 ? Dtype::f32 : Dtype::bf16, shape}};
  }
}

void plan_source(const QuantizeOptions& options, Plan& plan) {
  const std::filesystem::path config_path = options.source / "config.json";
  plan.config_text = read_file(config_path);
  plan.config = parse_model_config(plan.config_text, config_path.string());
  const ShardSet set = open_shards(options.source);
  check_complete(plan.config, set);
  for (const SafetensorsFile& shard : set.shards) {
    plan.files.push_back(source_file(shard));
    for (const TensorEntry& entry : shard.table().tensors())
      plan.source_counts.add(entry.dtype, entry.bytes());
  }
  const SourceTensors source(set.shards);
  for (const ModelTensor& tensor : model_tensors(plan.config)) {
    Job job;
    job.name = tensor.name;
    job.shape = tensor.shape;
    job.role = tensor.role;
    job.layer = tensor.layer;
    job.from = source_form(tensor, source);
    job.to = target_form(tensor, job.from, plan.config, options);
    for (const std::string& name : stored_names(tensor.name, job.from, source)) {
      job.stored[job.stored_count++] = source.range(name);
    }
    check_conversion(job);
    if (job.converts()) ++plan.quantized;
    plan.jobs.push_back(std::move(job));
  }
  pair_up(plan);
  make_lanes(plan);
}

}  // namespace glint::quantize
