// The text cases, and answers run through the output stream in any grouping.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "text/output_stream.h"
#include "text/python_json.h"
#include "text/tag_tokenizer.h"

namespace glint::test {

/// The objects of a file of JSON lines in tests/data/text.
inline std::vector<OrderedJson> json_lines(const std::string& name) {
  const std::string text = read_file(std::string(GLINT_TEST_DATA) + "/text/" + name);
  std::vector<OrderedJson> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) out.push_back(parse_python_json(std::string_view(text).substr(at, end - at), name));
    at = end + 1;
  }
  return out;
}

inline std::vector<OrderedJson> text_cases() {
  return json_lines("text-cases.jsonl");
}

/// Cuts `text` into tokens: tags are whole (tool tags not, if they are literal), other text goes in pieces of
/// the sizes that `next_size` returns, in characters.
template <class NextSize>
std::vector<TokenId> cut(TagTokenizer& tokenizer, std::string_view text, bool literal_tool_tags,
                         NextSize next_size) {
  std::vector<TokenId> out;
  const auto tag_at = [&](size_t at) -> size_t {
    const auto tag = TagTokenizer::tag_at(text.substr(at));
    if (!tag) return 0;
    const std::string_view name = text.substr(at, tag->bytes);
    const bool is_think = name == "<think>" || name == "</think>";
    return literal_tool_tags && !is_think ? 0 : tag->bytes;
  };
  for (size_t at = 0; at < text.size();) {
    if (const size_t bytes = tag_at(at); bytes > 0) {
      out.push_back(*tokenizer.id_of(text.substr(at, bytes)));
      at += bytes;
      continue;
    }
    size_t end = at;
    for (size_t left = next_size(); left > 0 && end < text.size() && (end == at || tag_at(end) == 0);
         --left) {
      do {
        ++end;
      } while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U);
    }
    out.push_back(tokenizer.piece(text.substr(at, end - at)));
    at = end;
  }
  return out;
}

/// What a client has got in the end.
struct Collected {
  std::vector<std::vector<OutputDelta>> steps;
  OutputResult result;
  OutputFinish finish;
  int64_t reasoning_tokens = 0;
  OutputCounters counters;

  [[nodiscard]] std::string text(OutputDelta::Kind kind) const {
    std::string out;
    for (const auto& step : steps) {
      for (const OutputDelta& delta : step) out += delta.kind == kind ? delta.text : "";
    }
    return out;
  }
  [[nodiscard]] std::string arguments(int32_t index) const {
    std::string out;
    for (const auto& step : steps) {
      for (const OutputDelta& delta : step) {
        if (delta.kind == OutputDelta::Kind::call_arguments && delta.index == index) out += delta.text;
      }
    }
    return out;
  }
};

/// Pushes the tokens in groups of the sizes that `next_group` returns.
template <class NextGroup>
Collected run_stream(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<TokenId>& tokens,
                     const OutputStreamOptions& options, const StreamEnd& end, NextGroup next_group) {
  const auto tags = std::make_shared<OutputTags>(*tokenizer);
  OutputStream stream(std::move(tokenizer), tags, options);
  Collected out;
  for (size_t at = 0; at < tokens.size();) {
    const size_t size = std::min<size_t>(next_group(), tokens.size() - at);
    out.steps.push_back(stream.push(std::span(tokens).subspan(at, size)));
    at += size;
  }
  out.steps.push_back(stream.finish(end));
  out.result = stream.result();
  out.finish = stream.finish_info();
  out.reasoning_tokens = stream.reasoning_tokens();
  out.counters = stream.counters();
  return out;
}

/// Options of a request as the cases hold it.
inline OutputStreamOptions options_of(const OrderedJson& request) {
  const auto field = [&](const char* name) { return request.value(name, OrderedJson()); };
  OutputStreamOptions options;
  const auto tools = parse_tools(field("tools"));
  options.parser.tools = std::make_shared<ToolSet>(tools);
  options.parser.tool_choice = parse_tool_choice(field("tool_choice"), tools);
  options.parser.parallel_tool_calls = field("parallel_tool_calls") != false;
  options.parser.include_reasoning = field("include_reasoning") != false;
  if (const OrderedJson stop = field("stop"); !stop.is_null()) {
    options.stop = std::make_shared<StopStrings>(stop.get<std::vector<std::string>>());
  }
  int calls = 0;
  options.parser.make_call_id = [calls]() mutable { return "call-" + std::to_string(calls++); };
  return options;
}

inline StreamEnd end_of(const OrderedJson& line) {
  const bool is_cut = line.value("engine_finish", std::string("stop")) == "length";
  return {is_cut ? StreamEnd::Reason::length : StreamEnd::Reason::stop, {}};
}

}  // namespace glint::test
