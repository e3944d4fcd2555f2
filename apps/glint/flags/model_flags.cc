#include "engine/flags.h"
#include "flags/groups.h"

namespace glint {

void add_model_flags(FlagTable& table, ServeFlags& to) {
  table.group("Model", {"ModelConfig", "LoadConfig"});
  table.add(value_flag("model", to.model, Text{})
                .metavar("MODEL")
                .alias("model-path")
                .help("The checkpoint's folder, or ORG/NAME of a hub; also as a bare word"));
  table.add(value_flag("revision", to.revision, Text{})
                .metavar("REVISION")
                .help("Of a hub's model: a branch, tag or commit; without it main"));
  table.add(value_flag("download-dir", to.download_dir, Text{})
                .metavar("DIR")
                .help("Where a hub's models are kept; without it HF_HUB_CACHE or ~/.cache/huggingface/hub"));
  table.add(value_flag("config", to.config_file, Text{})
                .metavar("FILE.yaml")
                .help("Flags in YAML, `name: value` a line; the command line wins over it"));
  table.add(list_flag("served-model-name", to.served_model_names)
                .metavar("NAME")
                .help("Names of the model in requests; answers carry the first. Without it: MODEL"));
  table.add(toggle_flag("strict-model-name", to.strict_model_name)
                .help("Accept the served names only, not MODEL beside them"));
  table.add(
      value_flag("dtype", to.dtype,
                 ReadBy<ops::ComputeDType>{parse_compute_dtype, {"auto", "bfloat16", "float32"}, "auto"})
          .metavar("TYPE")
          .help("What activations are computed in; float32 is the exact reference"));
  table.add(value_flag("quantization", to.quantization,
                       Choice{{"fp8", "modelopt", "modelopt_fp4", "modelopt_mixed", "compressed-tensors"},
                              {{"modelopt_fp8", "FP8 of this model is in blocks of 128: fp8"}}})
                .metavar("NAME")
                .short_name("q")
                .help("How the checkpoint's weights are stored; must agree with it. Without it what "
                      "config.json says"));
  table.add(
      value_flag("load-format", to.load_format,
                 Choice{{"auto", "safetensors", "fastsafetensors", "runai_streamer", "dummy"},
                        {{"", "checkpoints are read from safetensors: auto is possible"}}})
          .metavar("NAME")
          .help("dummy makes weights from config.json (those of glint make-checkpoint), to try sizes and "
                "speeds; all other names mean the same reader"));
  table.add(value_flag("generation-config", to.serve.generation_config, Text{})
                .metavar("WHERE")
                .help("Defaults of requests: auto (the model's generation_config.json), vllm (none), or a "
                      "folder"));
  table.add(object_flag("override-generation-config", to.serve.override_generation_config)
                .key("temperature", "0 to 2")
                .key("top_p", "above 0, at most 1")
                .key("top_k", "-1 or 0: all")
                .key("min_p", "0 to 1")
                .key("repetition_penalty", "above 0")
                .key("max_new_tokens", "what a request gets at most")
                .help("Defaults of requests, above those of --generation-config"));
  table.add(value_flag("format", to.format, Choice{{"bf16", "fp8", "nvfp4"}})
                .metavar("FORM")
                .only(std::string(kPlan))
                .help("The stored form; without it what config.json says of the checkpoint"));
}

}  // namespace glint
