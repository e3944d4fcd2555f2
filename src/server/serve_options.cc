#include "server/serve_options.h"

#include <algorithm>

#include "base/error.h"
#include "engine/engine.h"

namespace glint {

std::vector<std::string> served_names(const std::vector<std::string>& names, const std::string& path) {
  std::vector<std::string> served;
  for (const std::string& name : names) {
    if (name.empty()) fail(ErrorKind::bad_input, "argument --served-model-name: a name must not be empty");
    if (std::find(served.begin(), served.end(), name) == served.end()) served.push_back(name);
  }
  if (served.empty()) served.push_back(path);
  return served;
}

int64_t speculative_tokens(const OrderedJson& config) {
  if (config.empty()) return 0;
  for (const auto& [key, value] : config.items()) {
    if (key != "method" && key != "num_speculative_tokens") {
      fail(ErrorKind::bad_input, "argument --speculative-config: unknown key ", key,
           "; known are method and num_speculative_tokens");
    }
  }
  const OrderedJson chosen = config.value("method", OrderedJson());
  if (chosen != "mtp" && chosen != "deepseek_mtp") {
    fail(ErrorKind::bad_input,
         "argument --speculative-config.method: ", chosen.is_null() ? "missing" : chosen.dump(),
         "; this model drafts with mtp");
  }
  const OrderedJson count = config.value("num_speculative_tokens", OrderedJson());
  if (count == "auto") return kSpeculativeTokensAuto;
  if (!count.is_number_integer() || count < 1 || count > kSpeculativeTokensMax) {
    fail(ErrorKind::bad_input,
         "argument --speculative-config.num_speculative_tokens: ", count.is_null() ? "missing" : count.dump(),
         "; expected 1 to ", kSpeculativeTokensMax, ", or auto");
  }
  return count.get<int64_t>();
}

}  // namespace glint
