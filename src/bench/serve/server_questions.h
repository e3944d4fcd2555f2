// What a benchmark asks a server beside its load.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "bench/client/fetch.h"
#include "bench/serve/datasets.h"

namespace glint::bench {

struct ServedModelEntry {
  std::string id, root;  // root: the id if the server does not tell
};

/// GET /v1/models; empty if the server gives no list.
std::vector<ServedModelEntry> served_models(const Target& target, const HttpHeaders& headers);

/// Throws io, with what would help, if nothing listens there.
void check_reachable(const Target& target);

/// GET /metrics; "" if there are none.
std::string metrics_text(const Target& target, const HttpHeaders& headers);

/// Asks the server (POST /tokenize) whether the first prompt has as many tokens as it should; if not, prompts
/// that are longer for the server are cut by its own tokenizer. Prints what it found, in vLLM's words.
void align_prompts(const Target& target, const HttpHeaders& headers, const std::string& model,
                   std::vector<SampleRequest>& requests, std::ostream& out);

}  // namespace glint::bench
