#include "text/tokenizer_json.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/byte_map.h"

namespace glint {

TokenId TokenizerSpec::vocabulary_id(std::string_view token) const {
  if (const auto bytes = token_string_to_bytes(token)) return vocabulary.find(*bytes);
  const auto found = unmapped.find(std::string(token));
  return found == unmapped.end() ? -1 : found->second;
}

namespace {

/// A short form of a value for an error message.
std::string shown(const Json& value) {
  std::string text = dump_json(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

/// One object of the file with the path that leads to it.
class Node {
 public:
  Node(const Json& value, std::string_view what, std::string path)
      : value_(value), what_(what), path_(std::move(path)) {
    if (!value_.is_object()) wrong("", value_, "an object");
  }

  /// The member, or null (which the library takes for absent).
  [[nodiscard]] const Json& get(const char* key) const {
    static const Json kNull;
    const auto found = value_.find(key);
    return found == value_.end() ? kNull : *found;
  }
  [[nodiscard]] bool has(const char* key) const { return !get(key).is_null(); }
  [[nodiscard]] Node object(const char* key) const { return {get(key), what_, join(key)}; }
  [[nodiscard]] Node element(const char* key, const Json& value, size_t index) const {
    return {value, what_, cat(join(key), "[", index, "]")};
  }
  [[nodiscard]] const Json& array(const char* key) const {
    if (!get(key).is_array()) wrong(key, get(key), "an array");
    return get(key);
  }
  [[nodiscard]] const std::string& text(const char* key) const {
    if (!get(key).is_string()) wrong(key, get(key), "a string");
    return get(key).get_ref<const std::string&>();
  }
  [[nodiscard]] bool flag(const char* key) const {
    if (!get(key).is_boolean()) wrong(key, get(key), "true or false");
    return get(key).get<bool>();
  }
  [[nodiscard]] bool flag_or(const char* key, bool absent) const { return has(key) ? flag(key) : absent; }
  [[nodiscard]] TokenId id(const Json& value, std::string_view key) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= static_cast<uint64_t>(TokenTable::kIdsMax)) {
      wrong(key, value, cat("an id from 0 to ", TokenTable::kIdsMax - 1));
    }
    return static_cast<TokenId>(value.get<uint64_t>());
  }

  template <class Expected>
  [[noreturn]] void wrong(std::string_view key, const Json& found, const Expected& expected) const {
    fail(ErrorKind::bad_input, what_, ": ", join(key), " is ", shown(found), ", expected ", expected);
  }
  template <class... Why>
  [[noreturn]] void refuse(std::string_view key, const Why&... why) const {
    fail(ErrorKind::unsupported, what_, ": ", join(key), ": ", why...);
  }

 private:
  [[nodiscard]] std::string join(std::string_view key) const {
    if (key.empty()) return path_.empty() ? "the document" : path_;
    return path_.empty() ? std::string(key) : cat(path_, ".", key);
  }

  const Json& value_;
  std::string_view what_;
  std::string path_;
};

void read_vocabulary(const Node& model, TokenizerSpec& spec) {
  const Json& vocab = model.get("vocab");
  if (!vocab.is_object()) model.wrong("vocab", vocab, "an object of token strings and ids");
  for (const auto& [token, value] : vocab.items()) {
    const std::string key = cat("vocab[", shown(token), "]");
    const TokenId id = model.id(value, key);
    const auto bytes = token_string_to_bytes(token);
    const bool added = bytes ? spec.vocabulary.add(id, *bytes) : spec.vocabulary.add_hidden(id, token);
    if (!added) model.wrong(key, value, "an id that no other token has");
    if (!bytes) spec.unmapped.emplace(token, id);
  }
}

/// "a b", or two elements. The library takes the form of the first merge for all.
std::pair<std::string_view, std::string_view> merge_parts(const Node& model, const Json& merge, bool pairs,
                                                          size_t index) {
  const auto wrong = [&] {
    model.wrong(cat("merges[", index, "]"), merge,
                pairs ? "an array of two token strings" : "two token strings with one space between them");
  };
  if (pairs) {
    if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) wrong();
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }
  if (!merge.is_string()) wrong();
  const std::string_view text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) wrong();
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(const Node& model, TokenizerSpec& spec) {
  const Json& merges = model.array("merges");
  spec.merges.reserve(merges.size());
  const bool pairs = !merges.empty() && merges[0].is_array();
  uint32_t rank = 0;
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    // The header line of an old merges.txt, which the library skips.
    if (merges[i].is_string() && merges[i].get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = merge_parts(model, merges[i], pairs, i);
    joined.assign(left).append(right);
    const TokenId left_id = spec.vocabulary_id(left);
    const TokenId right_id = spec.vocabulary_id(right);
    const TokenId id = spec.vocabulary_id(joined);
    if (left_id < 0 || right_id < 0 || id < 0) {
      model.wrong(cat("merges[", i, "]"), merges[i], "both parts and what they make to be in the vocabulary");
    }
    spec.merges.add(left_id, right_id, {rank++, id});
  }
}

void read_model(const Node& model, TokenizerSpec& spec) {
  if (model.has("type") && model.text("type") != "BPE") {
    model.refuse("type", model.text("type"), " is not implemented, only BPE is");
  }
  if (model.has("unk_token")) {
    model.refuse("unk_token", "only null is implemented, found ", shown(model.get("unk_token")));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.has(key) || model.text(key).empty()) continue;
    model.refuse(key, "only null is implemented, found ", shown(model.get(key)));
  }
  if (model.has("dropout") && model.get("dropout") != 0.0) {
    model.refuse("dropout", "only null is implemented, found ", shown(model.get("dropout")));
  }
  if (model.flag_or("byte_fallback", false))
    model.refuse("byte_fallback", "only false is implemented, found true");
  spec.ignore_merges = model.flag_or("ignore_merges", false);
  read_vocabulary(model, spec);
  read_merges(model, spec);
}

/// The library numbers an added token by the model's entry of that content, else behind all ids so far,
/// whatever the file says. A file that says something else would mean different rows of the embedding there
/// and here.
void check_added_id(const Node& node, const AddedToken& token, const TokenizerSpec& spec) {
  TokenId expected = spec.vocabulary_id(token.content);
  if (expected < 0) {
    expected = static_cast<TokenId>(spec.vocabulary.tokens());
    for (const AddedToken& other : spec.added) expected = std::max(expected, other.id + 1);
  }
  if (token.id != expected) {
    node.wrong("id", token.id,
               cat(expected, " for ", shown(token.content),
                   ": the id of its entry in model.vocab, else the next free one"));
  }
}

void read_added_tokens(const Node& root, TokenizerSpec& spec) {
  if (!root.has("added_tokens")) return;
  std::unordered_set<std::string> contents;
  const Json& list = root.array("added_tokens");
  for (size_t i = 0; i < list.size(); ++i) {
    const Node node = root.element("added_tokens", list[i], i);
    AddedToken token;
    token.id = node.id(node.get("id"), "id");
    token.content = node.text("content");
    token.single_word = node.flag("single_word");
    token.lstrip = node.flag("lstrip");
    token.rstrip = node.flag("rstrip");
    token.normalized = node.flag("normalized");
    token.special = node.flag("special");
    if (token.content.empty()) node.wrong("content", token.content, "at least one character");
    if (!contents.insert(token.content).second)
      node.wrong("content", token.content, "content that no other has");
    check_added_id(node, token, spec);
    spec.added.push_back(std::move(token));
  }
}

std::string read_split(const Node& split) {
  if (split.text("type") != "Split")
    split.refuse("type", split.text("type"), " is not implemented here, Split is");
  if (split.text("behavior") != "Isolated") {
    split.refuse("behavior", "only Isolated is implemented, found ", split.text("behavior"));
  }
  if (split.flag("invert")) split.refuse("invert", "only false is implemented, found true");
  const Node pattern = split.object("pattern");
  if (!pattern.has("Regex")) split.refuse("pattern", "only {\"Regex\": ...} is implemented");
  return pattern.text("Regex");
}

void read_pre_tokenizer(const Node& root, TokenizerSpec& spec) {
  constexpr const char* kKey = "pre_tokenizer";
  constexpr const char* kOnly = "only a Sequence of Split (a regex) and ByteLevel is implemented";
  if (!root.has(kKey)) root.refuse(kKey, kOnly, ", found none");
  const Node sequence = root.object(kKey);
  if (sequence.text("type") != "Sequence") sequence.refuse("type", kOnly, ", found ", sequence.text("type"));
  const Json& list = sequence.array("pretokenizers");
  if (list.size() != 2) sequence.refuse("pretokenizers", kOnly, ", found ", list.size(), " steps");
  spec.pattern = read_split(sequence.element("pretokenizers", list[0], 0));
  const Node bytes = sequence.element("pretokenizers", list[1], 1);
  if (bytes.text("type") != "ByteLevel") bytes.refuse("type", kOnly, ", found ", bytes.text("type"));
  for (const char* key : {"add_prefix_space", "use_regex"}) {
    if (bytes.flag_or(key, true))
      bytes.refuse(key, "only false is implemented, found ", shown(bytes.get(key)));
  }
}

bool is_known_id(const TokenizerSpec& spec, TokenId id) {
  return spec.vocabulary.exists(id) || std::any_of(spec.added.begin(), spec.added.end(),
                                                   [id](const AddedToken& token) { return token.id == id; });
}

std::vector<TokenId> read_template(const Node& node, const TokenizerSpec& spec) {
  std::vector<TokenId> out;
  const Json& list = node.array("single");
  for (size_t i = 0; i < list.size(); ++i) {
    const Node piece = node.element("single", list[i], i);
    if (piece.has("Sequence")) {
      const Node sequence = piece.object("Sequence");
      if (sequence.text("id") != "A")
        sequence.wrong("id", sequence.get("id"), "\"A\" in a template for one text");
      out.push_back(TokenizerSpec::kText);
      continue;
    }
    const std::string& name = piece.object("SpecialToken").text("id");
    const Node tokens = node.object("special_tokens");
    if (!tokens.has(name.c_str()))
      node.wrong("special_tokens", tokens.get(name.c_str()), cat("an entry for ", shown(name)));
    const Node entry = tokens.object(name.c_str());
    for (const Json& id : entry.array("ids")) {
      out.push_back(entry.id(id, "ids"));
      if (!is_known_id(spec, out.back())) entry.wrong("ids", id, "an id that the file defines");
    }
  }
  return out;
}

void read_post_processor(const Node& node, TokenizerSpec& spec, bool& seen_template) {
  const std::string& type = node.text("type");
  if (type == "ByteLevel") return;  // moves offsets only
  if (type == "Sequence") {
    const Json& list = node.array("processors");
    for (size_t i = 0; i < list.size(); ++i)
      read_post_processor(node.element("processors", list[i], i), spec, seen_template);
    return;
  }
  if (type != "TemplateProcessing")
    node.refuse("type", type, " is not implemented, only TemplateProcessing, ByteLevel and Sequence");
  if (seen_template) node.refuse("", "a second TemplateProcessing is not implemented");
  seen_template = true;
  spec.post_template = read_template(node, spec);
}

void read_decoder(const Node& root) {
  constexpr const char* kKey = "decoder";
  if (!root.has(kKey)) root.refuse(kKey, "only ByteLevel is implemented, found none");
  const Node decoder = root.object(kKey);
  if (decoder.text("type") != "ByteLevel") {
    decoder.refuse("type", "only ByteLevel is implemented, found ", decoder.text("type"));
  }
}

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view json, std::string_view what) {
  JsonLimits limits;
  limits.keys_max = static_cast<size_t>(TokenTable::kIdsMax);
  const Json document = parse_json(json, what, limits);
  const Node root(document, what, "");
  if (root.has("version") && root.get("version") != "1.0")
    root.refuse("version", "only 1.0 is known, found ", shown(root.get("version")));
  for (const char* key : {"normalizer", "truncation", "padding"}) {
    if (root.has(key)) root.refuse(key, "only null is implemented, found ", shown(root.get(key)));
  }
  TokenizerSpec spec;
  read_model(root.object("model"), spec);
  read_added_tokens(root, spec);
  read_pre_tokenizer(root, spec);
  bool seen_template = false;
  if (root.has("post_processor")) read_post_processor(root.object("post_processor"), spec, seen_template);
  read_decoder(root);
  return spec;
}

}  // namespace glint
