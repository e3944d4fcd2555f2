// glint text tokenize: {"text"} becomes {"tokens"}, {"tokens"} becomes {"text"}.

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer.h"
#include "text_commands.h"

namespace glint {

namespace {

bool flag_of(const Json& line, const char* key, std::string_view place) {
  const auto found = line.find(key);
  if (found == line.end()) return false;
  if (!found->is_boolean())
    fail(ErrorKind::bad_input, place, ": ", key, " is ", found->dump(), ", expected true or false");
  return found->get<bool>();
}

std::vector<TokenId> ids_of(const Json& tokens, const Tokenizer& tokenizer, std::string_view place) {
  if (!tokens.is_array()) fail(ErrorKind::bad_input, place, ": tokens is no array of token ids");
  std::vector<TokenId> ids;
  ids.reserve(tokens.size());
  for (const Json& token : tokens) {
    const bool known =
        token.is_number_unsigned() && token.get<uint64_t>() < static_cast<uint64_t>(tokenizer.size());
    if (!known) {
      fail(ErrorKind::bad_input, place, ": tokens holds ",
           token.dump(-1, ' ', false, Json::error_handler_t::replace), ", expected ids from 0 to ",
           tokenizer.size() - 1);
    }
    ids.push_back(static_cast<TokenId>(token.get<uint64_t>()));
  }
  return ids;
}

std::string answer(const Tokenizer& tokenizer, std::string_view text, std::string_view place) {
  const Json line = parse_json(text, place);
  const bool has_text = line.is_object() && line.contains("text");
  const bool has_tokens = line.is_object() && line.contains("tokens");
  if (has_text == has_tokens)
    fail(ErrorKind::bad_input, place, R"(: expected an object with either "text" or "tokens")");
  Json result;
  if (has_text) {
    if (!line["text"].is_string()) fail(ErrorKind::bad_input, place, ": text is no string");
    result["tokens"] = tokenizer.encode(line["text"].get_ref<const std::string&>(),
                                        flag_of(line, "add_special_tokens", place));
  } else {
    result["text"] = tokenizer.decode(ids_of(line["tokens"], tokenizer, place),
                                      flag_of(line, "skip_special_tokens", place));
  }
  return dump_json(result);
}

void run(const TextFlags& flags) {
  if (flags.model.empty()) {
    fail(ErrorKind::bad_input, "text tokenize needs --model DIR, a folder with a tokenizer.json");
  }
  const auto tokenizer = Tokenizer::load(flags.model);
  for_each_line(
      flags, [&](std::string_view line, std::string_view place) { return answer(*tokenizer, line, place); });
}

}  // namespace

void add_text_tokenize(CLI::App& text) {
  CLI::App* const command =
      add_text_command(text, "tokenize", "Text to token ids, or token ids to text", run);
  command->footer(
      "Each line is {\"text\": STRING, \"add_special_tokens\": false} or {\"tokens\": [ID, ...], "
      "\"skip_special_tokens\": false};\nthe answers are {\"tokens\": [...]} and {\"text\": ...}.");
}

}  // namespace glint
