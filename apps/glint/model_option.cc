#include "model_option.h"

#include "base/error.h"

namespace glint {

void add_model_options(CLI::App& command, ModelOption& flags) {
  command.add_option("--revision", flags.revision,
                     "Of a hub's model: a branch, tag or commit; main without it");
  command.add_option("--download-dir", flags.download_dir,
                     "Where a hub's models are kept; without it HF_HUB_CACHE or ~/.cache/huggingface/hub");
}

ResolvedModel find_model(const ModelOption& flags, ModelFiles wanted) {
  ResolveOptions options;
  options.files = wanted;
  options.revision = flags.revision;
  options.download_dir = flags.download_dir;
  const std::optional<ResolvedModel> model = resolve_model(flags.name, options);
  GLINT_CHECK(model.has_value());  // nothing asked it to stop
  return *model;
}

}  // namespace glint
