// Random answers: against a second, whole-text reading of the rules, and calls there and back through the
// renderer.
#include <gtest/gtest.h>

#include "reference_parser.h"
#include "text/chat_template.h"
#include "text_cases.h"

namespace glint::test {
namespace {

constexpr const char* kTools = R"({"tools": [
  {"function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}, "n": {"type": "integer"},
                                                           "o": {"type": ["object", "null"]}}}}},
  {"function": {"name": "g"}}]})";

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  size_t below(size_t limit) { return random_() % limit; }
  bool maybe(double chance) { return static_cast<double>(random_() % 1000) < chance * 1000; }
  template <class List>
  const auto& pick(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::mt19937 random_;
};

/// Mostly grammatical, with damage: the interesting mistakes of models are near misses.
std::string random_answer(Dice& dice) {
  static const std::vector<std::string> kWords = {
      "f", "g", "a", "n", "o", " ", "\n", "x", "12", "{\"k\": [1]}", "é", "null", "h"};
  static const std::vector<std::string> kTags = {"<think>",   "</think>",   "<tool_call>", "</tool_call>",
                                                 "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};
  std::string out;
  const auto put = [&](const std::string& piece) {
    if (dice.maybe(0.06)) return;
    out += piece;
    if (dice.maybe(0.06)) out += dice.pick(kTags);
    if (dice.maybe(0.06)) out += dice.pick(kWords);
  };
  put("x");
  put("</think>");
  if (dice.maybe(0.5)) put(dice.pick(kWords));
  for (size_t calls = dice.below(4); calls > 0; --calls) {
    put("<tool_call>");
    put(dice.maybe(0.8) ? "f" : dice.pick(kWords));
    for (size_t pairs = dice.below(4); pairs > 0; --pairs) {
      put("<arg_key>");
      put(dice.pick(kWords));
      put("</arg_key>");
      put("<arg_value>");
      for (size_t words = dice.below(4); words > 0; --words)
        put(dice.maybe(0.85) ? dice.pick(kWords) : dice.pick(kTags));
      put("</arg_value>");
    }
    put("</tool_call>");
    if (dice.maybe(0.4)) put(dice.pick(kWords));
  }
  return out;
}

std::string dumped(const ReferenceCall& call) {
  std::string out = call.name + "{";
  for (const auto& [key, value] : call.pairs) {
    out += (out.ends_with('{') ? "" : ", ") + python_dumps(OrderedJson(key)) + ": " + value;
  }
  return out + "}";
}

TEST(OutputProperty, EqualsTheWholeTextReading) {
  const OrderedJson request = parse_python_json(kTools, "tools");
  size_t calls = 0;
  size_t cuts = 0;
  for (unsigned seed = 0; seed < 30000; ++seed) {
    Dice dice(seed);
    const std::string text = random_answer(dice);
    const bool is_cut = dice.maybe(0.25);
    OutputStreamOptions options = options_of(request);
    const ReferenceAnswer expected = ReferenceParser(text, is_cut, *options.parser.tools).parse();

    const auto tokenizer = std::make_shared<TagTokenizer>();
    const auto tokens = cut(*tokenizer, text, false, [&] { return 1 + dice.below(4); });
    const StreamEnd end{is_cut ? StreamEnd::Reason::length : StreamEnd::Reason::stop, {}};
    const Collected got = run_stream(tokenizer, tokens, options, end, [&] { return 1 + dice.below(6); });

    ASSERT_EQ(got.result.reasoning.value_or(""), expected.reasoning) << text;
    ASSERT_EQ(got.result.content.value_or(""), expected.content) << text;
    ASSERT_EQ(got.result.tool_calls.size(), expected.calls.size()) << text;
    for (size_t i = 0; i < expected.calls.size(); ++i) {
      const OutputToolCall& call = got.result.tool_calls[i];
      ASSERT_EQ(call.name + call.arguments, dumped(expected.calls[i])) << text;
      const std::string deltas = got.arguments(static_cast<int32_t>(i));
      if (is_cut && i + 1 == expected.calls.size()) {
        ++cuts;
        continue;
      }
      ASSERT_EQ(Json(parse_python_json(deltas, "deltas")),
                Json(parse_python_json(call.arguments, "arguments")))
          << text;
    }
    ASSERT_EQ(got.text(OutputDelta::Kind::reasoning), expected.reasoning) << text;
    const std::string sent = got.text(OutputDelta::Kind::content);
    ASSERT_EQ(expected.calls.empty() ? sent : std::string(python_strip(sent)), expected.content) << text;
    calls += expected.calls.size();
  }
  EXPECT_GT(calls, 15000U);
  EXPECT_GT(cuts, 1000U);
}

TEST(OutputProperty, CuttingNeverChangesTheResult) {
  const OrderedJson request = parse_python_json(kTools, "tools");
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Dice dice(seed + 1000000);
    const std::string text = random_answer(dice);
    std::optional<Collected> first;
    for (int way = 0; way < 6; ++way) {
      const auto tokenizer = std::make_shared<TagTokenizer>();
      const auto tokens =
          cut(*tokenizer, text, false, [&] { return way == 0 ? size_t{1000} : 1 + dice.below(5); });
      const Collected got = run_stream(tokenizer, tokens, options_of(request), {},
                                       [&] { return way == 0 ? tokens.size() : 1 + dice.below(6); });
      if (!first) first = got;
      ASSERT_EQ(got.text(OutputDelta::Kind::content), first->text(OutputDelta::Kind::content)) << text;
      ASSERT_EQ(got.text(OutputDelta::Kind::reasoning), first->text(OutputDelta::Kind::reasoning)) << text;
      ASSERT_EQ(got.result.tool_calls.size(), first->result.tool_calls.size()) << text;
      for (size_t i = 0; i < got.result.tool_calls.size(); ++i) {
        ASSERT_EQ(got.arguments(static_cast<int32_t>(i)), first->arguments(static_cast<int32_t>(i))) << text;
      }
      ASSERT_EQ(got.finish.finish_reason, first->finish.finish_reason) << text;
      ASSERT_EQ(got.counters.broken_calls, first->counters.broken_calls) << text;
    }
  }
}

/// Random schemas and values for calls that are written as the template writes them.
class CallMaker {
 public:
  explicit CallMaker(Dice& dice) : dice_(dice) {}

  std::string text() {
    static const std::vector<std::string> kParts = {"a",         " ",          "\n",          "\t",
                                                    "\"",        "\\",         "ü",           "中文",
                                                    "😀",         "\u3000",     "{",           "}",
                                                    "0",         "</arg",      "null",        "true",
                                                    "<think>",   "</think>",   "<tool_call>", "</tool_call>",
                                                    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};
    std::string out;
    for (size_t n = dice_.below(7); n > 0; --n) out += dice_.pick(kParts);
    return out;
  }

  OrderedJson json(int depth) {
    switch (dice_.below(depth > 2 ? 5 : 7)) {
      case 0:
        return nullptr;
      case 1:
        return dice_.maybe(0.5);
      case 2:
        return integer();
      case 3:
        return number();
      case 4:
        return text();
      case 5: {
        OrderedJson out = OrderedJson::array();
        for (size_t n = dice_.below(4); n > 0; --n) out.push_back(json(depth + 1));
        return out;
      }
      default: {
        OrderedJson out = OrderedJson::object();
        for (size_t n = dice_.below(4); n > 0; --n) out[text()] = json(depth + 1);
        return out;
      }
    }
  }

  /// A property's schema and a value that it declares.
  std::pair<OrderedJson, OrderedJson> property() {
    switch (dice_.below(9)) {
      case 0:
        return {{{"type", "integer"}}, integer()};
      case 1:
        return {{{"type", "number"}}, number()};
      case 2:
        return {{{"type", "boolean"}}, dice_.maybe(0.5)};
      case 3:
        return {{{"type", "object"}}, OrderedJson{{text(), json(1)}, {text() + "2", json(1)}}};
      case 4:
        return {{{"type", "array"}}, OrderedJson::array({json(1), json(1)})};
      case 5:
        return {{{"anyOf", {{{"type", "object"}}, {{"type", "null"}}}}},
                dice_.maybe(0.5) ? OrderedJson() : OrderedJson{{"k", json(1)}}};
      case 6:
        return {{{"type", {"string", "null"}}}, dice_.maybe(0.5) ? OrderedJson() : OrderedJson("t" + text())};
      case 7:
        return {{{"description", "no type"}}, text()};
      default:
        return {{{"type", "string"}}, text()};
    }
  }

 private:
  OrderedJson integer() {
    static const std::vector<std::string> kBig = {"18446744073709551616", "-123456789012345678901234567890",
                                                  "9007199254740993"};
    if (dice_.maybe(0.2)) return parse_python_json(dice_.pick(kBig), "big");
    return static_cast<int64_t>(dice_.below(2000000)) - 1000000;
  }
  OrderedJson number() {
    return (static_cast<double>(dice_.below(2000001)) - 1e6) /
           std::pow(10.0, static_cast<double>(dice_.below(12)));
  }

  Dice& dice_;
};

/// False for the texts that the positional rule cannot tell from the end of the value.
bool is_decidable(std::string_view value) {
  constexpr std::string_view kClose = "</arg_value>";
  for (size_t at = value.find(kClose); at != std::string_view::npos; at = value.find(kClose, at + 1)) {
    const std::string_view rest = python_lstrip(value.substr(at + kClose.size()));
    if (rest.starts_with("<arg_key>") || rest.starts_with("</tool_call>")) return false;
  }
  return true;
}

TEST(OutputProperty, CallsComeBackFromThePrompt) {
  size_t with_tags = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Dice dice(seed + 77);
    CallMaker maker(dice);
    OrderedJson body;
    OrderedJson calls = OrderedJson::array();
    bool decidable = true;
    for (size_t call = 0, n = 1 + dice.below(3); call < n; ++call) {
      const std::string name = "tool-" + std::to_string(call);
      OrderedJson properties = OrderedJson::object();
      OrderedJson arguments = OrderedJson::object();
      for (size_t i = 0, count = dice.below(5); i < count; ++i) {
        const std::string key = "k" + std::to_string(i);
        auto [schema, value] = maker.property();
        const std::string printed = value.is_string() ? value.get<std::string>() : python_dumps(value);
        decidable = decidable && is_decidable(printed);
        with_tags += printed.find("tool_call>") != std::string::npos ? 1 : 0;
        properties[key] = schema;
        arguments[key] = value;
      }
      OrderedJson tool;
      tool["function"] = {{"name", name}, {"parameters", {{"type", "object"}, {"properties", properties}}}};
      body["tools"].push_back(tool);
      OrderedJson function;
      function["function"]["name"] = name;
      function["function"]["arguments"] = arguments;
      calls.push_back(function);
    }
    if (!decidable) continue;
    const std::string content = dice.maybe(0.5) ? "Let me see." : "";
    OrderedJson message;
    message["role"] = "assistant";
    message["reasoning"] = "I think";
    message["content"] = content;
    message["tool_calls"] = calls;
    body["messages"].push_back(message);
    body["add_generation_prompt"] = false;
    const std::string prompt = ChatTemplate::glm53().render(parse_chat_request(body)).prompt;
    const std::string_view start = "<|assistant|><think>";
    const std::string text = prompt.substr(prompt.find(start) + start.size());

    const auto tokenizer = std::make_shared<TagTokenizer>();
    const auto tokens = cut(*tokenizer, text, false, [&] { return 1 + dice.below(4); });
    const Collected got =
        run_stream(tokenizer, tokens, options_of(body), {}, [&] { return 1 + dice.below(6); });
    ASSERT_EQ(got.result.reasoning, "I think");
    ASSERT_EQ(got.result.content.value_or(""), content);
    ASSERT_EQ(got.finish.finish_reason, "tool_calls");
    ASSERT_EQ(got.result.tool_calls.size(), calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      const OrderedJson back = parse_python_json(got.result.tool_calls[i].arguments, "arguments");
      ASSERT_EQ(Json(back), Json(calls[i]["function"]["arguments"])) << text;
      ASSERT_EQ(got.arguments(static_cast<int32_t>(i)), got.result.tool_calls[i].arguments) << text;
    }
  }
  EXPECT_GT(with_tags, 1000U);
}

}  // namespace
}  // namespace glint::test
