// How the router used the experts: what the device counts, beside what is counted on the host of the device's
// own choices, and beside the CPU's figures.
#include <algorithm>
#include <cmath>

#include "../model/golden_support.h"
#include "engine/cpu_executor.h"
#include "engine/cuda_executor.h"
#include "harness.h"
#include "nano_support.h"

namespace glint::gpu {
namespace {

constexpr int64_t kSequences = 5;  // decoding: filled up to a shape of six rows
constexpr int64_t kPrompt = 600;
constexpr int64_t kChunk = 200;
constexpr int64_t kAnswer = 40;
constexpr int64_t kPagesEach = 10;

DeviceOptions options() {
  DeviceOptions options;
  options.rows_max = kChunk;
  options.logits_max = 8;
  options.drafting_max = 8;
  options.context_max = kPagesEach * ops::kPageTokens;
  options.pages = kSequences * kPagesEach;
  return options;
}

/// Prompts in chunks of which the last row's logits are wanted, then one row of every sequence a step. More
/// than once the counts are halved.
std::vector<StepDescription> described_steps() {
  const auto tokenizer = Tokenizer::load(nano_folder());
  std::vector<int32_t> text;
  for (const std::string& prompt : prompts()) {
    for (const TokenId token : tokenizer->encode(prompt, false)) text.push_back(static_cast<int32_t>(token));
  }
  std::vector<StepDescription> steps;
  const auto open = [&] {
    StepDescription& step = steps.emplace_back();
    step.pages_stride = kPagesEach;
    for (int32_t page = 0; page < kSequences * kPagesEach; ++page) step.pages.push_back(page);
    return &step;
  };
  const auto add = [&](StepDescription& step, int64_t sequence, int64_t position) {
    step.tokens.push_back(text[static_cast<size_t>(sequence * (kPrompt + kAnswer) + position)]);
    step.positions.push_back(static_cast<int32_t>(position));
    step.sequences.push_back(static_cast<int32_t>(sequence));
    step.context_max = std::max(step.context_max, position + 1);
  };
  for (int64_t sequence = 0; sequence < kSequences; ++sequence) {
    for (int64_t first = 0; first < kPrompt; first += kChunk) {
      StepDescription* const step = open();
      for (int64_t row = 0; row < kChunk; ++row) add(*step, sequence, first + row);
      step->logits_rows = {static_cast<int32_t>(kChunk) - 1};
    }
  }
  for (int64_t position = kPrompt; position < kPrompt + kAnswer; ++position) {
    StepDescription* const step = open();
    for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
      add(*step, sequence, position);
      step->logits_rows.push_back(sequence);
    }
  }
  return steps;
}

/// Hands the choices of a device to the host's counting.
class Downloading final : public Probe {
 public:
  explicit Downloading(HostExpertLoad& load) : load_(load) {}
  void experts_chosen(int64_t layer, ops::Ops& ops, ops::Ints chosen) override {
    std::vector<int32_t> host(static_cast<size_t>(chosen.rows * chosen.cols));
    ops.download(chosen, host.data());
    load_.experts_chosen(layer, ops, {host.data(), chosen.rows, chosen.cols});
  }

 private:
  HostExpertLoad& load_;
};

/// A step of decoding sequences as a round.
void run_round(RoundRunner& rounds, const StepDescription& step) {
  RoundDescription round;
  round.sequences = static_cast<int64_t>(step.tokens.size());
  round.pages = step.pages;
  round.pages_stride = step.pages_stride;
  round.context_max = step.context_max;
  round.tokens = step.tokens;
  round.positions = step.positions;
  round.generated.assign(step.tokens.size(), 0);
  round.sampling.resize(step.tokens.size());
  rounds.start(round);
  rounds.finish();
}

std::unique_ptr<CudaDevice> device_of(const std::shared_ptr<const CudaWeights>& weights) {
  ops::cuda::CudaOptions invariant;
  invariant.batch_invariant = true;
  return std::make_unique<CudaDevice>(weights, options(), invariant);
}

void counts_as_the_cpu() {
  const auto model = testing::open_model(nano_folder());
  const ModelConfig& config = model->config();
  const auto weights = std::make_shared<const CudaWeights>(*model, ops::ComputeDType::bfloat16);
  CudaExecutor graphs(device_of(weights), true);
  CudaExecutor eager(device_of(weights), false);
  CudaExecutor rounds(device_of(weights), true);
  rounds.rounds()->set_sampleable(std::vector<bool>(static_cast<size_t>(config.vocab_size), true));
  CpuExecutor cpu(std::make_unique<CpuDevice>(model, options()));
  const auto probed = device_of(weights);
  HostExpertLoad expected(config.layers_with_mtp(), config.n_routed_experts);
  Downloading probe(expected);
  double worst = 0;
  for (const StepDescription& step : described_steps()) {
    graphs.execute(step);
    eager.execute(step);
    cpu.execute(step);
    if (step.logits_rows.size() > 1) {
      run_round(*rounds.rounds(), step);
    } else {
      rounds.execute(step);
    }
    const ops::Arena::Scope scope(probed->arena());
    probed->model().forward(probed->ops(), probed->place(step), probed->caches(), &probe);
    const std::vector<double> figures = expected.busiest_over_mean();
    expect(graphs.expert_load()->busiest_over_mean() == figures, "with graphs: other figures");
    expect(rounds.expert_load()->busiest_over_mean() == figures, "with rounds: other figures");
    expect(eager.expert_load()->busiest_over_mean() == figures, "without graphs: other figures");
  }
  const std::vector<double> figures = expected.busiest_over_mean();
  const std::vector<double> on_cpu = cpu.expert_load()->busiest_over_mean();
  expect(figures.size() == on_cpu.size(), "layers");
  int sparse = 0;
  for (size_t layer = 0; layer < figures.size(); ++layer) {
    expect((figures[layer] == 0) == (on_cpu[layer] == 0), "layer ", layer, " is counted on one device alone");
    if (on_cpu[layer] == 0) continue;
    ++sparse;
    worst = std::max(worst, std::abs(figures[layer] / on_cpu[layer] - 1));
  }
  note(cat("; ", sparse, " layers, at most ", 100 * worst, " % from the CPU's figures"));
  expect(sparse > 0 && worst < 0.05, "the figures differ by ", 100 * worst, " %");
}

const Register kCounts("expert load", counts_as_the_cpu);

}  // namespace
}  // namespace glint::gpu
