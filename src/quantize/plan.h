// Everything about a conversion that the source's headers decide, before a weight is read: what each tensor
// becomes, where every byte of the output will lie, in which order the source is read, and how much memory
// that takes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/plan.h"
#include "quantize/options.h"
#include "tensor/safetensors.h"

namespace glint::quantize {

/// How a tensor is stored.
enum class Form { bf16, f32, fp8, nvfp4 };
std::string_view form_name(Form form);

struct SourceFile {
  std::string name;
  int64_t bytes = 0;
  int64_t data_begin = 0;   // bytes before the data area
  int64_t modified_ns = 0;  // of its last change; the system's number and clock
  uint64_t inode = 0;
};

/// Bytes of a source file, counted from its start.
struct SourceRange {
  uint32_t file = 0;
  int64_t begin = 0;
  int64_t bytes = 0;
};

/// One tensor of the model: what is read, what is written.
struct Job {
  std::string name;  // of the BF16 checkpoint
  Shape shape;
  TensorRole role = TensorRole::matrix;
  int64_t layer = -1;
  Form from = Form::bf16;
  Form to = Form::bf16;
  std::array<SourceRange, 4> stored{};  // the weight, then its scales in the order of the form
  uint32_t stored_count = 0;
  uint32_t output_first = 0;  // its tensors in Plan::outputs
  uint32_t output_count = 0;
  int64_t partner = -1;  // gate's up and up's gate when they share weight_scale_2; a place in Plan::jobs
  bool partner_reread = false;  // the one met second reads the other again

  [[nodiscard]] bool converts() const { return from != to; }
  [[nodiscard]] int64_t elements() const { return element_count(shape); }
};

struct OutputTensor {
  TensorSpec spec;
  uint32_t job = 0;
  uint32_t shard = 0;
  int64_t place = 0;  // bytes from the start of its file
};

struct OutputShard {
  std::string file;
  std::string head;               // header with its length
  std::vector<uint32_t> outputs;  // in file order
  int64_t bytes = 0;              // of the whole file
};

/// What is done with one stored tensor when the reader comes to it.
struct LaneStep {
  enum class Kind { pass, copy, convert } kind = Kind::pass;
  uint32_t job = 0;
  uint32_t output = 0;  // copy: where to
  SourceRange range;
};

/// One source file from its first byte to its last. Lanes are independent, so several are read at once.
struct Lane {
  uint32_t file = 0;
  std::vector<LaneStep> steps;
};

struct Plan {
  ModelConfig config;
  std::string config_text;
  std::vector<SourceFile> files;
  std::vector<Job> jobs;
  std::vector<OutputTensor> outputs;
  std::vector<OutputShard> shards;
  std::vector<Lane> lanes;
  TensorCounts source_counts;
  TensorCounts output_counts;
  int64_t quantized = 0;             // tensors of the model that are coded anew
  int64_t expert_bundles = 0;        // experts whose three projections become NVFP4
  int64_t split_pairs = 0;           // gate and up in different files
  int64_t reread_bytes = 0;          // read twice: partners further apart than the memory for them
  int64_t hold_bytes_max = 0;        // memory of partners that wait for another file, at most
  int64_t local_hold_bytes_max = 0;  // and of those that wait inside one file
  int64_t convert_bytes_max = 0;     // the largest piece of BF16 weights that is coded at once
  int workers = 1;
  std::string hash;  // of what decides the output's bytes and of the source's files as they are now

  [[nodiscard]] int64_t source_bytes() const;
  [[nodiscard]] int64_t output_bytes() const;
  /// A bound on the buffers of a run: what read-ahead, coding and waiting partners take together.
  [[nodiscard]] int64_t memory_bytes() const;
};

/// Read ahead of a lane, and the pieces that tensors are cut into.
inline constexpr int64_t kReadAheadBytes = 96 << 20;
inline constexpr int64_t kPieceBytes = 16 << 20;

/// Reads config.json, the index and all headers of `options.source` and plans. Throws bad_input or
/// unsupported for a source that is no complete checkpoint, holds a tensor that the target cannot hold
/// (columns in no multiple of 16), is in the target's form already, or for a pattern that splits an expert's
/// gate from its up.
Plan make_plan(const QuantizeOptions& options);

/// The plan in words and numbers, for --dry-run.
std::string plan_text(const Plan& plan, const QuantizeOptions& options);

/// The module of a tensor: its name without ".weight".
std::string module_of(std::string_view tensor);

/// True if one of the patterns (shell wildcards; a trailing ".*" or "*" as in the published lists) matches.
bool is_excluded(const std::string& module, const std::vector<std::string>& patterns);

}  // namespace glint::quantize
