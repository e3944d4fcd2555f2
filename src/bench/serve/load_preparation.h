// What a benchmark does before its load: the model's name, the tokenizer, the prompts.
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/client/fetch.h"
#include "bench/serve/bench_serve.h"
#include "bench/serve/datasets.h"

namespace glint::bench {

bool is_chat(const BenchServeOptions& options);
/// The server that the options name.
Url url_of(const BenchServeOptions& options);
/// Of every request: those given, and the key of OPENAI_API_KEY.
HttpHeaders headers_of(const BenchServeOptions& options);
/// What requests name as their model.
const std::string& request_model(const BenchServeOptions& options);
/// The body of one request, keys in the order of vLLM's client.
std::string request_body(const BenchServeOptions& options, const SampleRequest& request,
                         const std::string& model);
/// "WARNING: ..." on standard error.
void print_warning(const std::string& text);

/// Throws bad_input for options that do not fit together.
void check_options(const BenchServeOptions& options);

class LoadPreparation {
 public:
  /// `options` get the model's names if they have none, and ignore_eos if the dataset wants it. Draws that
  /// belong to Python's global generators are taken from `numpy`.
  LoadPreparation(BenchServeOptions& options, const Target& target, NumpyLegacyRandom& numpy,
                  std::ostream& out)
      : options_(options), target_(target), numpy_(numpy), out_(out) {}

  std::vector<SampleRequest> run();
  /// Null with skip_tokenizer_init.
  [[nodiscard]] const PromptTokenizer* tokenizer() const { return tokenizer_.get(); }
  [[nodiscard]] const OrderedJson& tokenizer_id() const { return tokenizer_id_; }

 private:
  void choose_model();
  void load_tokenizer();
  [[nodiscard]] std::optional<std::filesystem::path> root_of_served_model(const std::string& name) const;
  [[nodiscard]] const PromptTokenizer& needed_tokenizer() const;
  std::vector<SampleRequest> sample();
  [[nodiscard]] FileDataset file_dataset() const;

  BenchServeOptions& options_;
  const Target& target_;
  NumpyLegacyRandom& numpy_;
  std::ostream& out_;
  std::shared_ptr<const PromptTokenizer> tokenizer_;
  OrderedJson tokenizer_id_;
};

}  // namespace glint::bench
