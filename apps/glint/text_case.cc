#include "text_case.h"

#include <algorithm>
#include <charconv>

#include "text/python_json.h"
#include "text/request_error.h"
#include "text/tag_tokenizer.h"

namespace glint {

namespace {

/// Parts of a text that are one token at most: tags, and what lies between them.
struct Part {
  std::string_view text;
  bool is_tag;
};

bool is_tool_tag(std::string_view tag) {
  return tag.find("tool_call>") < 3 || tag.find("arg_") < 3;
}

std::vector<Part> parts_of(std::string_view text, bool literal_tool_tags) {
  std::vector<Part> out;
  size_t start = 0;
  const auto flush = [&](size_t end) {
    if (end > start) out.push_back({text.substr(start, end - start), false});
  };
  for (size_t at = 0; at < text.size();) {
    const auto tag = TagTokenizer::tag_at(text.substr(at));
    if (!tag || (literal_tool_tags && is_tool_tag(text.substr(at, tag->bytes)))) {
      ++at;
      continue;
    }
    flush(at);
    out.push_back({text.substr(at, tag->bytes), true});
    start = at += tag->bytes;
  }
  flush(text.size());
  return out;
}

const std::string& text_field(const OrderedJson& value, const std::string& param) {
  if (!value.is_string()) refuse(param, param, " must be a string");
  return value.get_ref<const std::string&>();
}

/// Pieces end where chunks end, and after kPieceBytes bytes or the character that crosses them.
CaseTokens made_up_tokens(const std::vector<std::string>& chunks, bool literal_tool_tags) {
  constexpr size_t kPieceBytes = 3;
  const auto tokenizer = std::make_shared<TagTokenizer>();
  CaseTokens out{tokenizer, {}};
  std::string text;
  std::vector<size_t> chunk_ends;
  for (const std::string& chunk : chunks) chunk_ends.push_back((text += chunk).size());
  out.groups.resize(chunks.size());

  size_t group = 0;
  size_t at = 0;
  const auto take = [&](size_t bytes, bool is_tag) {
    const std::string_view piece = std::string_view(text).substr(at, bytes);
    at += bytes;
    while (at > chunk_ends[group]) ++group;
    out.groups[group].push_back(is_tag ? *tokenizer->id_of(piece) : tokenizer->piece(piece));
  };
  for (const Part& part : parts_of(text, literal_tool_tags)) {
    if (part.is_tag) {
      take(part.text.size(), true);
      continue;
    }
    const size_t end = at + part.text.size();
    while (at < end) {
      const size_t limit = std::min(end, *std::upper_bound(chunk_ends.begin(), chunk_ends.end(), at));
      size_t bytes = std::min(kPieceBytes, limit - at);
      while (at + bytes < limit && (static_cast<unsigned char>(text[at + bytes]) & 0xC0U) == 0x80U) ++bytes;
      take(bytes, false);
    }
  }
  return out;
}

CaseTokens model_tokens(const std::vector<std::string>& chunks, bool literal_tool_tags,
                        const std::shared_ptr<const Tokenizer>& model) {
  std::string text;
  for (const std::string& chunk : chunks) text += chunk;
  CaseTokens out{model, {}};
  const auto add = [&](std::string_view piece) {
    for (const TokenId id : model->encode(piece, false)) out.groups.push_back({id});
  };
  for (const Part& part : parts_of(text, literal_tool_tags)) {
    // A literal tag must not be found whole: it is encoded in two parts.
    std::string_view rest = part.text;
    for (size_t open = part.is_tag ? std::string_view::npos : rest.find('<'); open != std::string_view::npos;
         open = rest.find('<')) {
      add(rest.substr(0, open + 1));
      rest.remove_prefix(open + 1);
    }
    add(rest);
  }
  return out;
}

std::string bytes_of_hex(std::string_view hex, const std::string& param) {
  std::string out;
  for (size_t at = 0; at < hex.size(); at += 2) {
    unsigned byte = 0;
    const std::string_view digits = hex.substr(at, 2);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || result.ptr != digits.data() + 2)
      refuse(param, param, " is no even row of hex digits");
    out += static_cast<char>(byte);
  }
  return out;
}

CaseTokens hex_tokens(const OrderedJson& list) {
  const auto tokenizer = std::make_shared<TagTokenizer>();
  CaseTokens out{tokenizer, {}};
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string param = cat("token_bytes_hex.", i);
    const std::string bytes = bytes_of_hex(text_field(list[i], param), param);
    const auto tag = TagTokenizer::tag_at(bytes);
    out.groups.push_back({tag && tag->bytes == bytes.size() ? tag->id : tokenizer->piece(bytes)});
  }
  return out;
}

OrderedJson error_of(const Error& error, const OrderedJson& param) {
  OrderedJson out;
  out["error"]["message"] = error.what();
  out["error"]["param"] = param;
  return out;
}

}  // namespace

std::string answer_case(std::string_view line, std::string_view place,
                        const std::function<OrderedJson(const OrderedJson&)>& handle) {
  OrderedJson id;
  OrderedJson result;
  try {
    const OrderedJson parsed = parse_python_json(line, place);
    if (!parsed.is_object()) fail(ErrorKind::bad_input, place, ": expected a JSON object");
    id = parsed.value("id", OrderedJson());
    result = handle(parsed);
  } catch (const RequestError& error) {
    result = error_of(error, error.param());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    result = error_of(error, nullptr);
  }
  if (id.is_null()) return python_dumps(result);
  OrderedJson with_id;
  with_id["id"] = std::move(id);
  with_id.update(result);
  return python_dumps(with_id);
}

CaseTokens case_tokens(const OrderedJson& line, const std::shared_ptr<const Tokenizer>& model) {
  if (const auto hex = line.find("token_bytes_hex"); hex != line.end()) {
    if (!hex->is_array()) refuse("token_bytes_hex", "token_bytes_hex must be a list of strings");
    return hex_tokens(*hex);
  }
  std::vector<std::string> chunks;
  if (const auto list = line.find("chunks"); list != line.end()) {
    if (!list->is_array() || list->empty()) refuse("chunks", "chunks must be a list of strings, not empty");
    for (size_t i = 0; i < list->size(); ++i) chunks.push_back(text_field((*list)[i], cat("chunks.", i)));
  } else if (const auto whole = line.find("raw_output"); whole != line.end()) {
    chunks.push_back(text_field(*whole, "raw_output"));
  } else {
    refuse("raw_output", "the line has none of raw_output, chunks and token_bytes_hex");
  }
  const bool literal_tool_tags = line.value("literal_tags", OrderedJson(false)) == true;
  return model == nullptr ? made_up_tokens(chunks, literal_tool_tags)
                          : model_tokens(chunks, literal_tool_tags, model);
}

}  // namespace glint
