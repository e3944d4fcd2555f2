// Conversions against the reference's checkpoints. make_checkpoint's files have the hashes of those that the
// reference generator writes (tests/checkpoint), so they stand for it here.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/numeric.h"
#include "checkpoint/quantization_config.h"
#include "golden_support.h"
#include "quantize_support.h"
#include "support/expect_error.h"
#include "tensor/encode.h"

namespace glint::quantize {
namespace {

struct Case {
  const char* config;
  uint64_t seed;
  int64_t shard_bytes;
};
const std::vector<Case> kCases = {{"micro", 1, kShardBytesDefault},
                                  {"micro", 7, 9000},
                                  {"geometry", 2, 20'000'000},
                                  {"longtopk", 3, 5'000'000}};

TEST(Convert, Bf16ToNvfp4IsTheReferences) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(cat(test.config, " shards of ", test.shard_bytes));
    const TempFolder folder;
    make_standin(test.config, test.seed, CheckpointFormat::bf16, folder.path() / "bf16", test.shard_bytes);
    make_standin(test.config, test.seed, CheckpointFormat::nvfp4, folder.path() / "wanted");
    convert(conversion(folder.path() / "bf16", folder.path() / "out"));
    expect_same_tensors(folder.path() / "out", folder.path() / "wanted");
  }
}

TEST(Convert, Bf16ToFp8IsTheReferences) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.config);
    const TempFolder folder;
    make_standin(test.config, test.seed, CheckpointFormat::bf16, folder.path() / "bf16", test.shard_bytes);
    make_standin(test.config, test.seed, CheckpointFormat::fp8, folder.path() / "wanted");
    convert(conversion(folder.path() / "bf16", folder.path() / "out", Target::fp8_block));
    expect_same_tensors(folder.path() / "out", folder.path() / "wanted");
    const auto config = parse_json(read_file(folder.path() / "out/config.json"), "config");
    EXPECT_EQ(
        config.at("quantization_config"),
        parse_json(read_file(folder.path() / "wanted/config.json"), "config").at("quantization_config"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "out/hf_quant_config.json"));
  }
}

/// The converted folders serve, and their logits are those that transformers computed from the reference's.
TEST(Convert, TheOutputMatchesTheGoldens) {
  for (const auto& [name, source] :
       {std::pair("micro-nvfp4", "micro"), std::pair("geometry-nvfp4", "geometry"),
        std::pair("micro-fp8", "micro")}) {
    const auto& golden = testing::golden_case(name);
    const TempFolder folder;
    const Target target = std::string(golden.format) == "fp8" ? Target::fp8_block : Target::nvfp4_experts;
    convert(
        conversion(testing::golden_checkpoint(testing::golden_case(source)), folder.path() / "out", target));
    const auto trace = run_trace(testing::open_model(folder.path() / "out"), testing::golden_options(golden));
    EXPECT_EQ(testing::golden_faults(golden, trace), std::vector<std::string>{}) << name;
  }
}

std::vector<float> floats_in(const Stored& tensor) {
  std::vector<float> values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::vector<uint16_t> words_in(const Stored& tensor) {
  std::vector<uint16_t> values(tensor.bytes.size() / 2);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// FP8 codes times scales, element by element.
std::vector<uint16_t> decoded_fp8(const Stored& codes, const Stored& scale) {
  const std::vector<float> scales = floats_in(scale);
  const int64_t cols = codes.shape[1];
  std::vector<uint16_t> values;
  for (int64_t row = 0; row < codes.shape[0]; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      const auto code = static_cast<uint8_t>(codes.bytes[static_cast<size_t>(row * cols + col)]);
      const float s = scales[static_cast<size_t>(row / 128 * scale.shape[1] + col / 128)];
      values.push_back(float_to_bf16(e4m3_to_float(code) * s));
    }
  }
  return values;
}

TEST(Convert, Fp8ToBf16DecodesEveryWeight) {
  const TempFolder folder;
  make_standin("geometry", 2, CheckpointFormat::fp8, folder.path() / "fp8", 10'000'000);
  convert(conversion(folder.path() / "fp8", folder.path() / "out", Target::bf16));
  const auto source = stored_tensors_of(folder.path() / "fp8");
  const auto got = stored_tensors_of(folder.path() / "out");
  int64_t decoded = 0;
  for (const auto& [name, tensor] : source) {
    if (name.ends_with("_scale_inv")) continue;
    ASSERT_EQ(got.count(name), 1U) << name;
    if (tensor.dtype != Dtype::f8_e4m3) {
      EXPECT_EQ(got.at(name), tensor) << name;
      continue;
    }
    ++decoded;
    ASSERT_EQ(words_in(got.at(name)), decoded_fp8(tensor, source.at(name + "_scale_inv"))) << name;
  }
  EXPECT_GT(decoded, 100);
  const auto config = parse_json(read_file(folder.path() / "out/config.json"), "config");
  EXPECT_FALSE(config.contains("quantization_config"));
}

/// Decoded to BF16, then coded: the same as both steps one after the other.
TEST(Convert, Fp8ToNvfp4GoesThroughBf16) {
  const TempFolder folder;
  make_standin("micro", 5, CheckpointFormat::fp8, folder.path() / "fp8", 20'000);
  convert(conversion(folder.path() / "fp8", folder.path() / "direct"));
  convert(conversion(folder.path() / "fp8", folder.path() / "bf16", Target::bf16));
  convert(conversion(folder.path() / "bf16", folder.path() / "steps"));
  expect_same_tensors(folder.path() / "direct", folder.path() / "steps");
  const auto config = parse_json(read_file(folder.path() / "direct/config.json"), "config");
  EXPECT_EQ(config.at("quantization_config").at("quant_method"), "modelopt");
}

TEST(Convert, Nvfp4ToBf16DecodesEveryWeight) {
  const TempFolder folder;
  make_standin("micro", 1, CheckpointFormat::nvfp4, folder.path() / "nvfp4", 30'000);
  convert(conversion(folder.path() / "nvfp4", folder.path() / "out", Target::bf16));
  const auto source = stored_tensors_of(folder.path() / "nvfp4");
  const auto got = stored_tensors_of(folder.path() / "out");
  int64_t decoded = 0;
  for (const auto& [name, tensor] : source) {
    if (tensor.dtype != Dtype::u8) continue;
    ++decoded;
    const float global = floats_in(source.at(name + "_scale_2"))[0];
    const std::string& scales = source.at(name + "_scale").bytes;
    std::vector<uint16_t> wanted;
    for (size_t i = 0; i < 2 * tensor.bytes.size(); ++i) {
      const float step = e4m3_to_float(static_cast<uint8_t>(scales[i / 16])) * global;
      const auto pair = static_cast<uint8_t>(tensor.bytes[i / 2]);
      wanted.push_back(float_to_bf16(kE2m1[i % 2 == 0 ? pair & 15 : pair >> 4] * step));
    }
    ASSERT_EQ(words_in(got.at(name)), wanted) << name;
  }
  EXPECT_EQ(decoded, 5 * 8 * 3);
  expect_error([&] { convert(conversion(folder.path() / "nvfp4", folder.path() / "x", Target::fp8_block)); },
               {"is NVFP4 in the source", "--format bf16"});
}

TEST(Convert, MixedTakesEachPartFromItsOwnForm) {
  const TempFolder folder;
  make_standin("micro", 1, CheckpointFormat::bf16, folder.path() / "bf16", 50'000);
  make_standin("micro", 1, CheckpointFormat::nvfp4, folder.path() / "nvfp4");
  make_standin("micro", 1, CheckpointFormat::fp8, folder.path() / "fp8");
  convert(conversion(folder.path() / "bf16", folder.path() / "out", Target::nvfp4_experts_fp8));
  const auto nvfp4 = stored_tensors_of(folder.path() / "nvfp4");
  const auto fp8 = stored_tensors_of(folder.path() / "fp8");
  const auto got = stored_tensors_of(folder.path() / "out");
  int64_t fours = 0;
  int64_t eights = 0;
  for (const auto& [name, tensor] : got) {
    const bool expert =
        name.find(".mlp.experts.") != std::string::npos && !name.starts_with("model.layers.8.");
    EXPECT_EQ(tensor, (expert ? nvfp4 : fp8).at(name)) << name;
    fours += tensor.dtype == Dtype::u8 ? 1 : 0;
    eights += tensor.dtype == Dtype::f8_e4m3 && !expert ? 1 : 0;
  }
  EXPECT_EQ(fours, 5 * 8 * 3);
  EXPECT_GT(eights, 60);
  const auto hf = parse_json(read_file(folder.path() / "out/hf_quant_config.json"), "hf");
  EXPECT_EQ(hf.at("quantization").at("quant_algo"), "MIXED_PRECISION");
  EXPECT_EQ(Checkpoint::open(folder.path() / "out")->config().num_hidden_layers, 8);
  // `serve` plans from what the small files say: it must know every form that is written here.
  EXPECT_EQ(declared_form(folder.path() / "out").format, CheckpointFormat::nvfp4);
}

uint32_t hex(const Json& text) {
  return static_cast<uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16));
}

std::vector<uint8_t> hex_bytes(const Json& text) {
  const auto digits = text.get<std::string>();
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

/// One vector block through the coder; its variant of the GPU's rounding where it has one.
void expect_vector(const Json& block, GlobalScale mode, Isa isa) {
  Json wanted = block;
  if (mode == GlobalScale::torch_cuda && block.contains("torch_cuda_variant")) {
    wanted.update(block.at("torch_cuda_variant"));
  }
  std::vector<uint16_t> weights;
  for (const Json& bits : block.at("w_bf16")) weights.push_back(static_cast<uint16_t>(hex(bits)));
  const float global =
      global_scale_of(bf16_to_float(static_cast<uint16_t>(hex(block.at("group_amax_bf16")))), mode);
  EXPECT_EQ(std::bit_cast<uint32_t>(global), hex(wanted.at("weight_scale_2_f32")));
  std::vector<uint16_t> amax;
  find_amax(codec(isa), weights, 16, "vector", amax);
  std::vector<uint8_t> packed(8);
  uint8_t scale = 0;
  code_nvfp4(codec(isa), weights, amax, global, ScaleSearch::max, packed.data(), &scale);
  EXPECT_EQ(scale, hex(wanted.at("weight_scale_e4m3")));
  EXPECT_EQ(packed, hex_bytes(wanted.at("packed_u8")));
  std::vector<uint16_t> decoded(16);
  const auto byte = std::byte{scale};
  decode_nvfp4(std::as_bytes(std::span(packed)).data(), &byte, global, 1, 16, decoded.data());
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(decoded[i], hex(wanted.at("dequant_bf16").at(i))) << i;
}

TEST(Convert, EveryVectorInBothModesOnEveryInstructionSet) {
  const Json all =
      parse_json(read_file(std::filesystem::path(GLINT_TEST_DATA) / "tensor/nvfp4-vectors.json"), "vectors");
  ASSERT_EQ(all.at("blocks").size(), 40U);
  int variants = 0;
  for (const Json& block : all.at("blocks")) {
    SCOPED_TRACE(block.at("name").get<std::string>());
    variants += block.contains("torch_cuda_variant") ? 1 : 0;
    for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
      if (isa > best_isa()) continue;
      expect_vector(block, GlobalScale::exact, isa);
      expect_vector(block, GlobalScale::torch_cuda, isa);
    }
  }
  EXPECT_EQ(variants, 3);
  for (const Json& entry : all.at("global_scale")) {
    const float amax = bf16_to_float(static_cast<uint16_t>(hex(entry.at("amax_bf16"))));
    EXPECT_EQ(std::bit_cast<uint32_t>(global_scale_of(amax, GlobalScale::exact)), hex(entry.at("exact_f32")));
    EXPECT_EQ(std::bit_cast<uint32_t>(global_scale_of(amax, GlobalScale::torch_cuda)),
              hex(entry.at("torch_cuda_f32")));
  }
}

TEST(Convert, TorchCudaModeChangesGlobalScalesAndIsRecorded) {
  const TempFolder folder;
  make_standin("micro", 1, CheckpointFormat::bf16, folder.path() / "bf16");
  // The stand-in's maxima have no mantissa that the two roundings treat differently.
  StoredTensors file(folder.path() / "bf16/model-00001-of-00001.safetensors");
  for (StoredCopy& tensor : file.tensors) {
    const uint16_t bits = 0x3EF9;
    if (tensor.spec.name.ends_with(".gate_proj.weight")) std::memcpy(tensor.bytes.data(), &bits, 2);
  }
  file.save(folder.path() / "bf16/model-00001-of-00001.safetensors");
  QuantizeOptions options = conversion(folder.path() / "bf16", folder.path() / "exact");
  convert(options);
  options.out = folder.path() / "cuda";
  options.global_scale = GlobalScale::torch_cuda;
  convert(options);
  const auto exact = stored_tensors_of(folder.path() / "exact");
  int64_t changed = 0;
  for (const auto& [name, tensor] : stored_tensors_of(folder.path() / "cuda")) {
    if (name.ends_with("weight_scale_2") && tensor != exact.at(name)) ++changed;
  }
  EXPECT_EQ(changed, 5 * 8 * 2);
  EXPECT_EQ(manifest_of(folder.path() / "cuda").at("options").at("global_scale"), "torch-cuda");
}

std::vector<float> widened(const Stored& tensor) {
  std::vector<float> values;
  for (const uint16_t bits : words_in(tensor)) values.push_back(bf16_to_float(bits));
  return values;
}

/// EXPECTs a projection coded with this weight_scale_2 by the definition.
void expect_coded(const std::map<std::string, Stored>& got, const std::string& name, const Stored& source,
                  float global) {
  const std::vector<float> values = widened(source);
  std::string packed(values.size() / 2, '\0');
  std::string scales(values.size() / 16, '\0');
  encode_nvfp4(values.data(), static_cast<int64_t>(values.size()), global,
               static_cast<uint8_t*>(static_cast<void*>(packed.data())),
               static_cast<uint8_t*>(static_cast<void*>(scales.data())));
  EXPECT_EQ(floats_in(got.at(name + "_scale_2")), std::vector<float>{global}) << name;
  EXPECT_EQ(got.at(name + "_scale").bytes, scales) << name;
  EXPECT_EQ(got.at(name).bytes, packed) << name;
}

/// The stand-in's projections all have the same maximum, so one of each pair gets a larger weight here: in
/// turn gate and up.
TEST(Convert, GateAndUpShareTheLargerMaximum) {
  const TempFolder folder;
  make_standin("micro", 4, CheckpointFormat::bf16, folder.path() / "bf16", 9000);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "bf16")) {
    if (entry.path().extension() != ".safetensors") continue;
    StoredTensors file(entry.path());
    for (StoredCopy& tensor : file.tensors) {
      const bool odd = tensor.spec.name.find(".experts.1.") != std::string::npos;
      const uint16_t bits = 0xBFC0;  // -1.5
      if (tensor.spec.name.ends_with(odd ? ".gate_proj.weight" : ".up_proj.weight")) {
        std::memcpy(tensor.bytes.data() + 40, &bits, 2);
      }
    }
    file.save(entry.path());
  }
  const auto source = stored_tensors_of(folder.path() / "bf16");
  for (const int64_t hold : {kHoldBytes, int64_t{0}}) {
    QuantizeOptions options = conversion(folder.path() / "bf16", folder.path() / cat("out", hold));
    options.hold_bytes = hold;
    convert(options);
    const auto got = stored_tensors_of(options.out);
    for (int layer = 3; layer < 8; ++layer) {
      for (int expert = 0; expert < 8; ++expert) {
        const std::string module = cat("model.layers.", layer, ".mlp.experts.", expert, ".");
        for (const char* projection : {"gate_proj.weight", "up_proj.weight"}) {
          expect_coded(got, module + projection, source.at(module + projection), 1.5F / 2688.0F);
        }
      }
    }
  }
}

TEST(Convert, TheSearchKeepsTheLayoutAndReportsItsGain) {
  const TempFolder folder;
  make_standin("geometry", 2, CheckpointFormat::bf16, folder.path() / "bf16");
  QuantizeOptions options = conversion(folder.path() / "bf16", folder.path() / "max");
  const QuantizeOutcome plain = convert(options);
  options.out = folder.path() / "mse";
  options.scale_search = ScaleSearch::mse;
  const QuantizeOutcome searched = convert(options);
  EXPECT_LT(searched.total.error, 0.85 * plain.total.error);
  EXPECT_DOUBLE_EQ(searched.total.error_of_max, plain.total.error);
  const auto max = stored_tensors_of(folder.path() / "max");
  for (const auto& [name, tensor] : stored_tensors_of(folder.path() / "mse")) {
    EXPECT_EQ(tensor.shape, max.at(name).shape);
    EXPECT_EQ(tensor.dtype, max.at(name).dtype);
    if (name.ends_with("weight_scale_2")) {
      EXPECT_EQ(tensor, max.at(name));
    }
  }
  EXPECT_GT(manifest_of(folder.path() / "mse").at("errors").at("search_gain_percent").get<double>(), 7);
  const std::string report = read_file(folder.path() / "mse" / kReportName);
  const Json first = parse_json(report.substr(0, report.find('\n')), "report");
  EXPECT_GT(first.at("search_gain_percent").get<double>(), 0);
}

TEST(Convert, WorkersShardsAndMemoryChangeNoByte) {
  const TempFolder folder;
  make_standin("micro", 4, CheckpointFormat::bf16, folder.path() / "bf16", 9000);
  QuantizeOptions options = conversion(folder.path() / "bf16", folder.path() / "one");
  options.workers = 1;
  const Plan plan = make_plan(options);
  EXPECT_GT(plan.split_pairs, 5);
  EXPECT_EQ(plan.reread_bytes, 0);
  quantize(options, plan, {});
  options.workers = 7;
  options.out = folder.path() / "seven";
  options.isa = Isa::portable;
  convert(options);
  expect_same_folders(folder.path() / "seven", folder.path() / "one");
  // No memory for partners: each pair's first projection is read twice.
  options.workers = 3;
  options.out = folder.path() / "reread";
  options.hold_bytes = 0;
  const Plan reread = make_plan(options);
  EXPECT_EQ(reread.reread_bytes, 5 * 8 * 32 * 64 * 2);
  EXPECT_NE(plan_text(reread, options).find("read twice"), std::string::npos);
  quantize(options, reread, {});
  expect_same_folders(folder.path() / "reread", folder.path() / "one");
}

}  // namespace
}  // namespace glint::quantize
