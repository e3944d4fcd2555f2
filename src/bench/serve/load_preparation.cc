#include "bench/serve/load_preparation.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "base/error.h"
#include "bench/serve/server_questions.h"

namespace glint::bench {

bool is_chat(const BenchServeOptions& options) {
  return options.backend.ends_with("-chat");
}

void print_warning(const std::string& text) {
  std::cerr << "WARNING: " << text << "\n";
}

Url url_of(const BenchServeOptions& options) {
  if (!options.base_url.empty()) return Url::parse(options.base_url);
  Url url;
  url.host = options.host;
  url.port = static_cast<int>(options.port);
  return url;
}

HttpHeaders headers_of(const BenchServeOptions& options) {
  HttpHeaders list = options.headers;
  const bool given = std::any_of(list.begin(), list.end(), [](const auto& entry) {
    return entry.first == "Authorization" || entry.first == "authorization";
  });
  if (const char* key = std::getenv("OPENAI_API_KEY"); !given && key != nullptr && *key != '\0') {
    list.emplace_back("Authorization", std::string("Bearer ") + key);
  }
  return list;
}

const std::string& request_model(const BenchServeOptions& options) {
  return options.served_model_name.empty() ? options.model : options.served_model_name;
}

std::string request_body(const BenchServeOptions& options, const SampleRequest& request,
                         const std::string& model) {
  OrderedJson body;
  body["model"] = model;
  if (is_chat(options)) {
    body["messages"] = request.messages;
    if (request.messages.is_null()) {
      body["messages"] = OrderedJson::array({OrderedJson{
          {"role", "user"},
          {"content", OrderedJson::array({OrderedJson{{"type", "text"}, {"text", request.prompt}}})}}});
    }
    body["max_completion_tokens"] = request.output_len;
  } else {
    body["prompt"] = request.prompt;
    body["repetition_penalty"] = 1.0;
    body["max_tokens"] = request.output_len;
    body["logprobs"] = nullptr;
    if (options.logprobs) body["logprobs"] = *options.logprobs;
  }
  body["stream"] = true;
  body["stream_options"] = OrderedJson{{"include_usage", true}};
  if (options.ignore_eos) body["ignore_eos"] = true;
  for (const OrderedJson* more : {&options.sampling, &options.extra_body}) {
    for (const auto& [key, value] : more->items()) body[key] = value;
  }
  return dump_json(body);
}

void check_options(const BenchServeOptions& options) {
  const std::string suffix = is_chat(options) ? "chat/completions" : "completions";
  if (!options.endpoint.ends_with(suffix) ||
      (!is_chat(options) && options.endpoint.ends_with("chat/completions"))) {
    fail(ErrorKind::bad_input, "argument --endpoint: --backend ", options.backend,
         " needs an endpoint that ends with ", is_chat(options) ? "/v1/chat/completions" : "/v1/completions",
         ", got ", options.endpoint);
  }
  if (options.num_prompts < 1 && options.dataset.name != "custom") {
    fail(ErrorKind::bad_input, "argument --num-prompts: expected at least 1, got ", options.num_prompts);
  }
  const bool made = options.dataset.name == "random" || options.dataset.name == "prefix_repetition";
  if (made && !options.dataset.path.empty()) {
    fail(ErrorKind::bad_input, "Cannot use '", options.dataset.name,
         "' dataset with --dataset-path. Please specify the appropriate --dataset-name (e.g., 'sharegpt', "
         "'custom') "
         "for your dataset file: ",
         options.dataset.path);
  }
}

std::vector<SampleRequest> LoadPreparation::run() {
  choose_model();
  load_tokenizer();
  std::vector<SampleRequest> requests = sample();
  if (options_.dataset.name == "random" || options_.dataset.name == "prefix_repetition") {
    align_prompts(target_, headers_of(options_), request_model(options_), requests, out_);
  }
  return requests;
}

void LoadPreparation::choose_model() {
  if (!options_.model.empty()) return;
  out_ << "Model not specified, fetching first model from server...\n";
  const auto models = served_models(target_, headers_of(options_));
  if (models.empty()) {
    fail(ErrorKind::bad_input, "No models found on the server at ", target_.url().text(),
         ". Make sure the server is running and has models loaded, or give --model.");
  }
  options_.served_model_name = models.front().id;
  options_.model = models.front().root;
  out_ << "First model name: " << models.front().id << ", first model id: " << models.front().root << "\n";
}

void LoadPreparation::load_tokenizer() {
  if (options_.skip_tokenizer_init) return;
  const std::string& name = options_.tokenizer.empty() ? options_.model : options_.tokenizer;
  auto path = find_tokenizer(name);
  if (!path && options_.tokenizer.empty()) path = root_of_served_model(name);
  if (!path) {
    fail(ErrorKind::not_found, name,
         ": no such folder and not in the Hugging Face cache; give --tokenizer FOLDER ",
         "(one with tokenizer.json)");
  }
  tokenizer_id_ = name;
  tokenizer_ = PromptTokenizer::load(*path);
}

/// A server on this machine tells where its model lies.
std::optional<std::filesystem::path> LoadPreparation::root_of_served_model(const std::string& name) const {
  const auto models = served_models(target_, headers_of(options_));
  for (const ServedModelEntry& model : models) {
    if (model.id != request_model(options_) && model.root != name && models.size() > 1) continue;
    const auto path = find_tokenizer(model.root);
    if (path)
      print_warning(cat(name, " is not on this machine; the tokenizer is that of the server's model, ",
                        path->string()));
    return path;
  }
  return std::nullopt;
}

const PromptTokenizer& LoadPreparation::needed_tokenizer() const {
  if (tokenizer_) return *tokenizer_;
  fail(ErrorKind::bad_input, "Tokenizer must be initialized for the '", options_.dataset.name,
       "' dataset: drop --skip-tokenizer-init");
}

std::vector<SampleRequest> LoadPreparation::sample() {
  const DatasetOptions& given = options_.dataset;
  if (given.name == "random") {
    options_.ignore_eos = true;  // so that answers have the length that was asked for
    return sample_random({.num_prompts = options_.num_prompts,
                          .input_len = given.input_len.value_or(given.random_input_len),
                          .output_len = given.output_len.value_or(given.random_output_len),
                          .input_range_ratio = given.random_input_ratio,
                          .output_range_ratio = given.random_output_ratio,
                          .prefix_len = given.random_prefix_len,
                          .seed = options_.seed,
                          .request_id_prefix = options_.request_id_prefix},
                         needed_tokenizer(), print_warning);
  }
  if (given.name == "prefix_repetition") {
    return sample_prefix_repetition({.num_prompts = options_.num_prompts,
                                     .num_prefixes = given.repetition_num_prefixes,
                                     .prefix_len = given.repetition_prefix_len,
                                     .suffix_len = given.repetition_suffix_len,
                                     .output_len = given.output_len.value_or(given.repetition_output_len),
                                     .seed = options_.seed,
                                     .shuffle = given.shuffle,
                                     .request_id_prefix = options_.request_id_prefix},
                                    needed_tokenizer(), numpy_, print_warning);
  }
  return sample_file(file_dataset(), tokenizer_.get());
}

FileDataset LoadPreparation::file_dataset() const {
  const DatasetOptions& given = options_.dataset;
  FileDataset dataset;
  dataset.path = given.path;
  dataset.num_prompts = options_.num_prompts;
  dataset.skip_chat_template = given.skip_chat_template;
  dataset.chat = is_chat(options_);
  dataset.chat_template_kwargs = options_.chat_template_kwargs;
  dataset.seed = options_.seed;
  dataset.shuffle = given.shuffle;
  dataset.oversample = given.oversample;
  dataset.request_id_prefix = options_.request_id_prefix;
  if (given.name == "sharegpt") {
    dataset.kind = FileDataset::Kind::sharegpt;
    dataset.output_len = given.output_len.value_or(given.sharegpt_output_len.value_or(-1));
  } else if (given.name == "spec_bench") {
    dataset.kind = FileDataset::Kind::spec_bench;
    dataset.category = given.spec_bench_category;
    dataset.output_len = given.output_len.value_or(given.spec_bench_output_len);
  } else {
    dataset.output_len = given.output_len.value_or(given.custom_output_len);
  }
  const bool rendered = dataset.kind != FileDataset::Kind::sharegpt && !dataset.skip_chat_template;
  if (dataset.chat && rendered && tokenizer_) {
    print_warning(
        "prompts of this dataset are rendered with the chat template, as in vLLM, and the chat endpoint "
        "renders them again; --skip-chat-template sends them as they are");
  }
  return dataset;
}

}  // namespace glint::bench
