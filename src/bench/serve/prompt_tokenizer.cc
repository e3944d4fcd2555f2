#include "bench/serve/prompt_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "text/chat_request.h"

namespace glint::bench {

namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 7> kNamedTokens{"bos_token", "eos_token", "unk_token", "sep_token",
                                                  "pad_token", "cls_token", "mask_token"};

/// "<eos>" or {"content": "<eos>", ...}.
void add_content(const Json& token, std::set<std::string>& contents) {
  if (token.is_string()) contents.insert(token.get<std::string>());
  if (token.is_object() && token.contains("content")) add_content(token["content"], contents);
}

void add_special(const Json& config, std::set<std::string>& contents) {
  for (const char* name : kNamedTokens) {
    if (config.contains(name)) add_content(config[name], contents);
  }
  for (const char* list : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!config.contains(list) || !config[list].is_structured()) continue;
    for (const Json& token : config[list]) add_content(token, contents);
  }
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  std::string result;
  size_t begin = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, begin)) {
    result.append(text, begin, at - begin).append(to);
    begin = at + from.size();
  }
  return result.append(text, begin, std::string::npos);
}

/// transformers' clean_up_tokenization.
std::string cleaned_up(std::string text) {
  constexpr std::array<std::pair<const char*, const char*>, 10> kRules{{{" .", "."},
                                                                        {" ?", "?"},
                                                                        {" !", "!"},
                                                                        {" ,", ","},
                                                                        {" ' ", "'"},
                                                                        {" n't", "n't"},
                                                                        {" 'm", "'m"},
                                                                        {" 's", "'s"},
                                                                        {" 've", "'ve"},
                                                                        {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) text = replaced(std::move(text), from, to);
  return text;
}

std::optional<fs::path> hub_cache() {
  const auto variable = [](const char* name) -> std::optional<fs::path> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return fs::path(value);
  };
  if (const auto cache = variable("HF_HUB_CACHE")) return cache;
  if (const auto home = variable("HF_HOME")) return *home / "hub";
  if (const auto home = variable("HOME")) return *home / ".cache" / "huggingface" / "hub";
  return std::nullopt;
}

bool has_tokenizer(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / "tokenizer.json", none);
}

}  // namespace

std::shared_ptr<const PromptTokenizer> PromptTokenizer::load(const fs::path& path) {
  auto result = std::make_shared<PromptTokenizer>();
  result->tokenizer_ = Tokenizer::load(path);
  result->folder_ = fs::is_directory(path) ? path : path.parent_path();
  result->read_settings(result->folder_);
  return result;
}

void PromptTokenizer::read_settings(const fs::path& folder) {
  std::set<std::string> special;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const fs::path file = folder / name;
    if (!fs::exists(file)) continue;
    const Json config = parse_json(read_file(file), file.string());
    if (!config.is_object()) fail(ErrorKind::bad_input, file.string(), ": expected an object");
    add_special(config, special);
    const auto clean_up = config.find("clean_up_tokenization_spaces");
    if (clean_up != config.end() && clean_up->is_boolean()) clean_up_spaces_ = clean_up->get<bool>();
  }
  std::set<TokenId> ids;
  for (const std::string& content : special) {
    if (const auto id = tokenizer_->id_of(content)) ids.insert(*id);
  }
  for (TokenId id = 0; id < vocab_size(); ++id) {
    if (!ids.contains(id)) allowed_.push_back(id);
  }
}

std::string PromptTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text = tokenizer_->decode(ids, false);
  return clean_up_spaces_ ? cleaned_up(std::move(text)) : text;
}

std::string PromptTokenizer::render_user(std::string_view text) const {
  return render(OrderedJson::array({OrderedJson{{"role", "user"}, {"content", text}}}));
}

std::string PromptTokenizer::render(const OrderedJson& messages, const OrderedJson& kwargs) const {
  OrderedJson body{{"messages", messages}};
  if (!kwargs.is_null()) body["chat_template_kwargs"] = kwargs;
  return ChatTemplate::load(folder_).render(parse_chat_request(body)).prompt;
}

std::optional<fs::path> find_tokenizer(const std::string& name) {
  std::error_code none;
  if (fs::exists(name, none)) return name;
  const auto cache = hub_cache();
  if (!cache) return std::nullopt;
  const fs::path model = *cache / ("models--" + replaced(name, "/", "--"));
  const fs::path ref = model / "refs" / "main";
  if (fs::exists(ref, none)) {
    std::string commit = read_file(ref, 4096);
    commit.erase(commit.find_last_not_of(" \r\n\t") + 1);
    if (has_tokenizer(model / "snapshots" / commit)) return model / "snapshots" / commit;
  }
  std::vector<fs::path> snapshots;
  for (const auto& entry : fs::directory_iterator(model / "snapshots", none)) {
    if (has_tokenizer(entry.path())) snapshots.push_back(entry.path());
  }
  if (snapshots.size() == 1) return snapshots.front();
  return std::nullopt;
}

}  // namespace glint::bench
