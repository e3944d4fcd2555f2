#include "text/standin_tokenizer.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "text/byte_map.h"
#include "text/pretokenizer.h"
#include "text/standin_vocabulary.h"
#include "text/tokenizer.h"

namespace glint {

namespace {

struct KnownToken {
  std::string_view content;
  bool special;
};

/// The added tokens of GLM-5.3 in the order of their ids there (154820 to 154855). Special are the roles,
/// masks and media marks, which a reader of the answer must not see; not special is what the parsers look for
/// in the answer.
constexpr std::array<KnownToken, 36> kKnownTokens = {{
    {"<|endoftext|>", true},
    {"[MASK]", true},
    {"[gMASK]", true},
    {"[sMASK]", true},
    {"<sop>", true},
    {"<eop>", true},
    {"<|system|>", true},
    {"<|user|>", true},
    {"<|assistant|>", true},
    {"<|observation|>", true},
    {"<|begin_of_image|>", true},
    {"<|end_of_image|>", true},
    {"<|begin_of_video|>", true},
    {"<|end_of_video|>", true},
    {"<|begin_of_audio|>", true},
    {"<|end_of_audio|>", true},
    {"<|begin_of_transcription|>", true},
    {"<|end_of_transcription|>", true},
    {"<|code_prefix|>", true},
    {"<|code_middle|>", true},
    {"<|code_suffix|>", true},
    {"<think>", false},
    {"</think>", false},
    {"<tool_call>", false},
    {"</tool_call>", false},
    {"<tool_response>", false},
    {"</tool_response>", false},
    {"<arg_key>", false},
    {"</arg_key>", false},
    {"<arg_value>", false},
    {"</arg_value>", false},
    {"/nothink", false},
    {"<|begin_of_box|>", true},
    {"<|end_of_box|>", true},
    {"<|image|>", true},
    {"<|video|>", true},
}};
constexpr std::array<std::string_view, 3> kEosTokens = {"<|endoftext|>", "<|user|>", "<|observation|>"};

void check_sizes(int64_t vocab_size, std::span<const int32_t> eos) {
  if (vocab_size < kStandinVocabularyMin || vocab_size > kStandinVocabularyMax) {
    fail(ErrorKind::bad_input, "config.json: vocab_size is ", vocab_size, ", a stand-in tokenizer needs ",
         kStandinVocabularyMin, " (256 bytes and 36 added tokens) to ", kStandinVocabularyMax);
  }
  const std::set<int32_t> distinct(eos.begin(), eos.end());
  const bool good =
      eos.size() == 3 && distinct.size() == 3 && *distinct.begin() >= 0 && *distinct.rbegin() < vocab_size;
  if (!good) {
    fail(ErrorKind::bad_input,
         "config.json: a stand-in tokenizer needs eos_token_id to hold three different ids below vocab_size ",
         vocab_size, " (for <|endoftext|>, <|user|> and <|observation|>), found ", eos.size());
  }
}

/// The id of each of kKnownTokens.
std::array<TokenId, kKnownTokens.size()> place_known_tokens(int64_t vocab_size,
                                                            std::span<const int32_t> eos) {
  std::array<TokenId, kKnownTokens.size()> ids{};
  auto next = static_cast<TokenId>(vocab_size);
  for (size_t i = kKnownTokens.size(); i-- > 0;) {
    const auto* const found = std::find(kEosTokens.begin(), kEosTokens.end(), kKnownTokens[i].content);
    if (found != kEosTokens.end()) {
      ids[i] = eos[static_cast<size_t>(found - kEosTokens.begin())];
      continue;
    }
    do {
      --next;
    } while (std::find(eos.begin(), eos.end(), next) != eos.end());
    ids[i] = next;
  }
  return ids;
}

/// Writes the JSON piece by piece: a document tree of 150,000 tokens would take longer than the tokens.
class JsonWriter {
 public:
  void raw(std::string_view text) { out_ += text; }
  void number(int64_t value) { out_ += std::to_string(value); }
  /// A token string holds no control characters and is valid UTF-8.
  void text(std::string_view value) {
    out_ += '"';
    for (const char c : value) {
      if (c == '"' || c == '\\') out_ += '\\';
      out_ += c;
    }
    out_ += '"';
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

void write_added_tokens(JsonWriter& out, const std::array<TokenId, kKnownTokens.size()>& ids) {
  std::vector<size_t> order(ids.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ids[a] < ids[b]; });
  const char* separator = "";
  for (const size_t i : order) {
    out.raw(separator);
    out.raw("{\"id\":");
    out.number(ids[i]);
    out.raw(",\"content\":");
    out.text(kKnownTokens[i].content);
    out.raw(R"(,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":)");
    out.raw(kKnownTokens[i].special ? "true}" : "false}");
    separator = ",\n";
  }
}

void write_model(JsonWriter& out, int64_t vocab_size,
                 const std::array<TokenId, kKnownTokens.size()>& known_ids) {
  const StandinVocabulary made =
      make_standin_vocabulary(static_cast<size_t>(vocab_size) - kKnownTokens.size());
  std::vector<std::string> by_id(static_cast<size_t>(vocab_size));
  for (size_t i = 0; i < known_ids.size(); ++i)
    by_id[static_cast<size_t>(known_ids[i])] = kKnownTokens[i].content;
  std::vector<std::string> written(made.tokens.size());
  size_t id = 0;
  for (size_t i = 0; i < made.tokens.size(); ++i, ++id) {
    while (!by_id[id].empty()) ++id;
    written[i] = bytes_to_token_string(made.tokens[i]);
    by_id[id] = written[i];
  }
  out.raw("\"vocab\":{");
  for (size_t i = 0; i < by_id.size(); ++i) {
    out.raw(i == 0 ? "\n" : ",\n");
    out.text(by_id[i]);
    out.raw(":");
    out.number(static_cast<int64_t>(i));
  }
  out.raw("},\n\"merges\":[");
  const char* separator = "\n";
  for (const auto& [left, right] : made.merges) {
    out.raw(separator);
    out.raw("[");
    out.text(written[left]);
    out.raw(",");
    out.text(written[right]);
    out.raw("]");
    separator = ",\n";
  }
  out.raw("]");
}

}  // namespace

std::string standin_tokenizer_json(int64_t vocab_size, std::span<const int32_t> eos_token_id) {
  check_sizes(vocab_size, eos_token_id);
  const auto known_ids = place_known_tokens(vocab_size, eos_token_id);
  JsonWriter out;
  out.raw("{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":[\n");
  write_added_tokens(out, known_ids);
  out.raw("],\n\"normalizer\":null,\n\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[\n");
  out.raw(R"({"type":"Split","pattern":{"Regex":)");
  out.text(kGlmPattern);
  out.raw("},\"behavior\":\"Isolated\",\"invert\":false},\n");
  out.raw(R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},)");
  out.raw("\n\"post_processor\":null,\n");
  out.raw(R"("decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},)");
  out.raw(
      "\n\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":"
      "null,");
  out.raw("\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":true,\n");
  write_model(out, vocab_size, known_ids);
  out.raw("}}\n");
  return out.take();
}

void write_standin_tokenizer(const ModelConfig& config, const std::filesystem::path& folder) {
  const std::string tokenizer = standin_tokenizer_json(config.vocab_size, config.eos_token_id);
  const Json settings = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"model_max_length", config.max_position_embeddings},
                         {"clean_up_tokenization_spaces", false},
                         {"eos_token", "<|endoftext|>"},
                         {"pad_token", "<|endoftext|>"},
                         {"bos_token", nullptr},
                         {"unk_token", nullptr}};
  write_file_atomically(folder / "tokenizer.json", tokenizer);
  write_file_atomically(folder / "tokenizer_config.json", settings.dump(2) + "\n");
  write_file_atomically(folder / "chat_template.jinja", standin_chat_template());
}

}  // namespace glint
