// The rules for answers one by one, beyond the text cases.
#include "text/output_parser.h"

#include <gtest/gtest.h>

#include <ctime>

#include "text_cases.h"

namespace glint::test {
namespace {

constexpr const char* kTools = R"({"tools": [
  {"function": {"name": "put", "parameters": {"properties": {"path": {"type": "string"}, "body": {"type": "string"},
                                                             "n": {"type": "integer"}, "memo": {"type": ["string", "null"]}}}}},
  {"function": {"name": "ping"}}]})";

OrderedJson request(const std::string& extra = "") {
  OrderedJson out = parse_python_json(kTools, "tools");
  if (!extra.empty()) out.update(parse_python_json(extra, "extra"));
  return out;
}

Collected answer(std::string_view text, const OrderedJson& body = request(),
                 StreamEnd::Reason reason = StreamEnd::Reason::stop) {
  const auto tokenizer = std::make_shared<TagTokenizer>();
  const auto tokens = cut(*tokenizer, text, false, [] { return size_t{2}; });
  return run_stream(tokenizer, tokens, options_of(body), {reason, {}}, [] { return 1; });
}

/// "name{arguments}" for each call, then "|content", then "|reasoning" where there are any.
std::string summary(const Collected& got) {
  std::string out;
  for (const OutputToolCall& call : got.result.tool_calls) out += call.name + call.arguments;
  if (got.result.content) out += "|" + *got.result.content;
  if (got.result.reasoning) out += "|r:" + *got.result.reasoning;
  return out;
}

std::string parsed(std::string_view text, const OrderedJson& body = request(),
                   StreamEnd::Reason reason = StreamEnd::Reason::stop) {
  return summary(answer(text, body, reason));
}

std::string put(const std::string& inside) {
  return "</think><tool_call>put" + inside + "</tool_call>";
}
std::string body_value(const std::string& value) {
  return put("<arg_key>body</arg_key><arg_value>" + value + "</arg_value>");
}

TEST(OutputParser, StateTable) {
  EXPECT_EQ(parsed("<think>a<think>b</think>c"), "|c|r:ab");
  EXPECT_EQ(parsed("a</think>b<think>c</think>d"), "|bd|r:ac");
  EXPECT_EQ(parsed("a</think>b</think>c</tool_call>d"), "|bcd|r:a");
  EXPECT_EQ(parsed("a<arg_key>b</tool_call>c"), "|r:a<arg_key>b</tool_call>c");
  EXPECT_EQ(parsed("</think>see <arg_value>x</arg_value>"), "|see <arg_value>x</arg_value>");
  EXPECT_EQ(parsed("a<tool_call>ping</tool_call>b"), "ping{}|b|r:a");
  EXPECT_EQ(parsed("a<|user|>b</think>c<|observation|>d"), "|cd|r:ab");
}

TEST(OutputParser, StartsInContentIfThePromptSaysSo) {
  const auto tokenizer = std::make_shared<TagTokenizer>();
  OutputStreamOptions options = options_of(request());
  options.parser.starts_in_reasoning = false;
  const auto tokens = cut(*tokenizer, " a<think>b</think>c", false, [] { return size_t{2}; });
  const Collected got = run_stream(tokenizer, tokens, options, {}, [] { return 1; });
  EXPECT_EQ(summary(got), "| ac|r:b");
  EXPECT_EQ(got.reasoning_tokens, 1);
}

TEST(OutputParser, WhiteSpace) {
  EXPECT_EQ(parsed(" \n a \n</think>\n\nb \n"), "|\n\nb \n|r: \n a");
  EXPECT_EQ(parsed(" \n"), "");
  EXPECT_EQ(parsed("a</think> \n"), "| \n|r:a");
  EXPECT_EQ(parsed("</think>\n<tool_call>ping</tool_call>\n<tool_call>ping</tool_call>\n"), "ping{}ping{}");
  EXPECT_EQ(parsed("</think>\n a \n<tool_call>ping</tool_call>\n b \n"), "ping{}|a\n b");
  EXPECT_EQ(parsed("</think>a <tool_call>nobody</tool_call> b"), "|a  b");
  EXPECT_EQ(parsed("</think>a\u3000<tool_call>ping</tool_call>"), "ping{}|a");
  // Deltas may not take back leading white space that real text followed.
  EXPECT_EQ(answer("</think>\na\n<tool_call>ping</tool_call>").text(OutputDelta::Kind::content), "\na");
}

TEST(OutputParser, Names) {
  EXPECT_EQ(parsed("</think><tool_call>\n ping \n</tool_call>"), "ping{}");
  EXPECT_EQ(parsed("</think><tool_call></arg_key>pi<think>ng</arg_value></tool_call>"), "ping{}");
  EXPECT_EQ(parsed("</think><tool_call>pong</tool_call>x"), "|x");
  EXPECT_EQ(
      parsed("</think><tool_call>pong<arg_key>a</arg_key><arg_value>b</tool_call></arg_value></tool_call>x"),
      "|x");
  EXPECT_EQ(parsed("</think><tool_call> \n</tool_call>x"), "|x");
  EXPECT_EQ(parsed("</think>a <tool_call> b <tool_call>ping</tool_call>"), "ping{}|a");
  const Collected got = answer(
      "</think><tool_call>pong</tool_call><tool_call></tool_call></tool_call><tool_call>ping</tool_call>");
  EXPECT_EQ(summary(got), "ping{}");
  EXPECT_EQ(got.counters.unknown_tools, 1);
  EXPECT_EQ(got.counters.broken_calls, 1);
  EXPECT_EQ(got.counters.stray_tags, 1);
}

TEST(OutputParser, UnknownToolsCanBePassedOn) {
  const auto tokenizer = std::make_shared<TagTokenizer>();
  OutputStreamOptions options = options_of(request());
  options.parser.drop_unknown_tools = false;
  const auto tokens =
      cut(*tokenizer, "</think><tool_call>pong<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
          false, [] { return size_t{3}; });
  EXPECT_EQ(summary(run_stream(tokenizer, tokens, options, {}, [] { return 1; })), "pong{\"a\": \"1\"}");
}

TEST(OutputParser, TagsInsideValuesAreDataByPosition) {
  for (const std::string value :
       {"a </tool_call> b", "<tool_call>x</tool_call>", "</arg_value> x", "x </arg_value>",
        "</arg_value></arg_value>", "<arg_key>k</arg_key><arg_value>v", "a</arg_value>\n</arg_value>b",
        "</think><think>", "</tool_call>", "</tool_call><tool_call>ping</tool_call>",
        "</arg_value></think></arg_key>", "</arg_value> <arg_value>"}) {
    OrderedJson expected;
    expected["body"] = value;
    EXPECT_EQ(parsed(body_value(value)), "put" + python_dumps(expected)) << value;
    EXPECT_EQ(answer(body_value(value)).arguments(0), python_dumps(expected)) << value;
    EXPECT_EQ(parsed(body_value(value) + "<tool_call>ping</tool_call>"),
              "put" + python_dumps(expected) + "ping{}")
        << value;
  }
}

TEST(OutputParser, TheLastRuleForValuesThatNothingCloses) {
  const std::string open = "</think><tool_call>put<arg_key>body</arg_key><arg_value>";
  EXPECT_EQ(parsed(open + "v</arg_value> junk </tool_call>"), R"(put{"body": "v"})");
  EXPECT_EQ(parsed(open + "v</arg_value> junk </tool_call>after"), R"(put{"body": "v"}|after)");
  EXPECT_EQ(parsed(open + "v</arg_value> junk"), R"(put{"body": "v"})");
  EXPECT_EQ(parsed(open + "v</arg_value>x</arg_value> junk </tool_call>"),
            R"(put{"body": "v</arg_value>x"})");
  EXPECT_EQ(parsed(open + "v</arg_value> a </tool_call> b </tool_call>c"), R"(put{"body": "v"}|c)");
  EXPECT_EQ(parsed(open + "v</tool_call>"), R"(put{"body": "v"})");
  EXPECT_EQ(parsed(open + "v</tool_call>\nafter"), R"(put{"body": "v"}|after)");
  EXPECT_EQ(parsed(open + "v</tool_call>w</tool_call>x"), R"(put{"body": "v</tool_call>w"}|x)");
  EXPECT_EQ(parsed(open + "v"), R"(put{"body": "v"})");
  // One broken call does not swallow the next.
  const std::string ping = "<tool_call>ping</tool_call>";
  EXPECT_EQ(parsed(open + "v</tool_call>" + ping), R"(put{"body": "v"}ping{})");
  EXPECT_EQ(parsed(open + "v</tool_call>" + open.substr(8) + "w</tool_call>\n" + ping),
            R"(put{"body": "v"}put{"body": "w"}ping{})");
  EXPECT_EQ(parsed(open + "v</arg_value> junk </tool_call>" + ping), R"(put{"body": "v"}ping{})");
  EXPECT_EQ(parsed(open + "v</arg_value>" + ping), R"(put{"body": "v"}ping{})");
  EXPECT_EQ(parsed(open + "v</tool_call><tool_call>ping"), R"(put{"body": "v"}ping{})");
}

TEST(OutputParser, MalformedPairs) {
  EXPECT_EQ(parsed(put("<arg_key>n</arg_key>7</arg_value>")), R"(put{"n": 7})");
  EXPECT_EQ(parsed(put("<arg_key>body</arg_key> a\n</arg_value>")), R"(put{"body": " a\n"})");
  EXPECT_EQ(parsed(put("<arg_key>body</arg_key></arg_value>")), R"(put{"body": ""})");
  EXPECT_EQ(parsed(put("<arg_key>body</arg_key>v")), R"(put{"body": "v"})");
  EXPECT_EQ(parsed(put("<arg_key>body</arg_key>junk<arg_value>v</arg_value>")), R"(put{"body": "v"})");
  EXPECT_EQ(parsed(put("<arg_key>body<arg_value>v</arg_value>")), R"(put{"body": "v"})");
  EXPECT_EQ(parsed(put("<arg_key>path</arg_key><arg_key>body</arg_key><arg_value>v</arg_value>")),
            R"(put{"body": "v"})");
  EXPECT_EQ(parsed(put("<arg_key>path<arg_key>body</arg_key><arg_value>v</arg_value>")),
            R"(put{"body": "v"})");
  EXPECT_EQ(parsed(put("<arg_key>path")), "put{}");
  EXPECT_EQ(parsed(put("<arg_key>path</arg_key>")), "put{}");
  EXPECT_EQ(parsed("</think><tool_call>put<arg_key>path<tool_call>ping</tool_call>"), "ping{}");
  EXPECT_EQ(
      parsed(
          "</think><tool_call>put<arg_key>n</arg_key><arg_value>1</arg_value><arg_key>path<tool_call>ping"),
      R"(put{"n": 1}ping{})");
}

TEST(OutputParser, RepeatedKeysTakeTheLastValueAtTheFirstPlace) {
  const std::string text =
      put("<arg_key>body</arg_key><arg_value>a</arg_value><arg_key>n</arg_key><arg_value>1</arg_value>"
          "<arg_key>body</arg_key><arg_value>b</arg_value>");
  EXPECT_EQ(parsed(text), R"(put{"body": "b", "n": 1})");
  EXPECT_EQ(python_dumps(parse_python_json(answer(text).arguments(0), "deltas")), R"({"body": "b", "n": 1})");
}

TEST(OutputParser, SendsWhatCannotChangeAndHoldsTheRest) {
  const auto tokenizer = std::make_shared<TagTokenizer>();
  OutputStream stream(tokenizer, std::make_shared<OutputTags>(*tokenizer), options_of(request()));
  const auto push = [&](std::string_view text) {
    std::string out;
    for (const TokenId token : cut(*tokenizer, text, false, [] { return size_t{100}; })) {
      for (const OutputDelta& delta : stream.push(token)) {
        out += delta.kind == OutputDelta::Kind::call_open ? "[" + delta.name + "]" : delta.text;
      }
    }
    return out;
  };
  EXPECT_EQ(push("r</think><tool_call>pu"), "r");
  EXPECT_EQ(push("t<arg_key>path"), "");
  EXPECT_EQ(push("</arg_key>"), "");
  EXPECT_EQ(push("<arg_value>"), R"([put]{"path": ")");
  EXPECT_EQ(push("a\"b"), R"(a\"b)");
  EXPECT_EQ(push("<tool_call>"), "<tool_call>");
  EXPECT_EQ(push("</arg_value>"), "");
  EXPECT_EQ(push(" \n"), "");
  EXPECT_EQ(push("c"), "");
  EXPECT_EQ(push("</arg_value>"), "</arg_value> \\nc");
  EXPECT_EQ(push("<arg_key>n</arg_key><arg_value>4"), "\"");
  EXPECT_EQ(push("2</arg_value>"), "");
  EXPECT_EQ(push("<arg_key>"), R"(, "n": 42)");
  EXPECT_EQ(push("memo</arg_key><arg_value>null"), "");
  EXPECT_EQ(push("</arg_value></tool_call>"), R"(, "memo": null})");
  EXPECT_EQ(push("<tool_call>ping"), "");
  EXPECT_EQ(push("</tool_call>"), "[ping]{}");
}

TEST(OutputParser, ToolChoice) {
  const std::string two =
      "</think>a<tool_call>ping</tool_call><tool_call>put<arg_key>n</arg_key><arg_value>1</arg_value></"
      "tool_call>";
  EXPECT_EQ(parsed(two), R"(ping{}put{"n": 1}|a)");
  EXPECT_EQ(parsed(two, request(R"({"tool_choice": "none"})")), "|a");
  EXPECT_EQ(parsed(two, request(R"({"parallel_tool_calls": false})")), "ping{}|a");
  const auto named = request(R"({"tool_choice": {"type": "function", "function": {"name": "put"}}})");
  EXPECT_EQ(parsed(two, named), R"(put{"n": 1}|a)");
  EXPECT_EQ(answer(two, named).finish.finish_reason, "stop");
  const auto required = request(R"({"tool_choice": "required"})");
  EXPECT_EQ(answer(two, required).finish.finish_reason, "tool_calls");
  EXPECT_EQ(parsed("</think><tool_call>ping</tool_call>", required), "ping{}|");
  EXPECT_EQ(answer("</think><tool_call>ping</tool_call>", request(R"({"tool_choice": "none"})"))
                .finish.finish_reason,
            "stop");
}

TEST(OutputParser, AnAnswerThatIsCut) {
  const auto cut_at = [](const std::string& text) {
    return answer("</think>" + text, request(), StreamEnd::Reason::length);
  };
  const std::string pair = "<tool_call>put<arg_key>n</arg_key><arg_value>1</arg_value>";
  for (const std::string text :
       {"<tool_call>ping", "<tool_call>put<arg_key>n", "<tool_call>put<arg_key>n</arg_key>",
        "<tool_call>put<arg_key>n</arg_key>1"}) {
    EXPECT_EQ(summary(cut_at(text)), "") << text;
    EXPECT_EQ(cut_at(text).finish.finish_reason, "length");
  }
  EXPECT_EQ(summary(cut_at("<tool_call>put<arg_key>n</arg_key><arg_value>1")), "put{}");
  EXPECT_EQ(summary(cut_at(pair)), R"(put{"n": 1})");
  EXPECT_EQ(cut_at(pair).arguments(0), "");
  EXPECT_EQ(summary(cut_at(pair + "<arg_key>body</arg_key><arg_value>half")), R"(put{"n": 1})");
  EXPECT_EQ(cut_at(pair + "<arg_key>body</arg_key><arg_value>half").arguments(0),
            R"({"n": 1, "body": "half)");
  EXPECT_EQ(summary(cut_at(pair + "<arg_key>body</arg_key><arg_value>a</tool_call> b")), R"(put{"n": 1})");
  EXPECT_EQ(summary(cut_at("<tool_call>ping</tool_call>" + pair + "</tool_call> and")),
            R"(ping{}put{"n": 1}|and)");
  EXPECT_EQ(cut_at("<tool_call>ping</tool_call>").finish.finish_reason, "length");
}

TEST(OutputParser, AStopStringInsideACallIsACut) {
  const auto body = request(R"({"stop": ["STOP"]})");
  const Collected in_name = answer("</think><tool_call>pingSTOP</tool_call>", body);
  EXPECT_EQ(summary(in_name), "");
  EXPECT_EQ(in_name.finish.finish_reason, "stop");
  const Collected in_value = answer(
      "</think><tool_call>put<arg_key>n</arg_key><arg_value>1</arg_value><arg_key>body</"
      "arg_key><arg_value>aSTOPb",
      body);
  EXPECT_EQ(summary(in_value), R"(put{"n": 1})");
  EXPECT_EQ(in_value.finish.finish_reason, "stop");
  EXPECT_EQ(std::get<std::string>(in_value.finish.stop_reason), "STOP");
  const Collected after = answer("</think><tool_call>ping</tool_call>xSTOPy", body);
  EXPECT_EQ(summary(after), "ping{}|x");
  EXPECT_EQ(after.finish.finish_reason, "tool_calls");
}

TEST(OutputParser, ReasoningCanBeLeftOut) {
  const Collected got = answer("a b</think>c", request(R"({"include_reasoning": false})"));
  EXPECT_EQ(summary(got), "|c");
  EXPECT_EQ(got.text(OutputDelta::Kind::reasoning), "");
  EXPECT_EQ(got.reasoning_tokens, 2);
}

TEST(OutputParser, CallIdsAreUnique) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = random_tool_call_id();
    EXPECT_TRUE(id.starts_with("chatcmpl-tool-"));
    EXPECT_EQ(id.size(), 46U);
    EXPECT_TRUE(ids.insert(id).second);
  }
}

/// Seconds of processor time for the whole answer, token by token.
double seconds(const std::string& text, std::string* result = nullptr) {
  const auto tokenizer = std::make_shared<TagTokenizer>();
  const auto tokens = cut(*tokenizer, text, false, [] { return size_t{4}; });
  OutputStream stream(tokenizer, std::make_shared<OutputTags>(*tokenizer), options_of(request()));
  const std::clock_t start = std::clock();
  for (const TokenId token : tokens) stream.push(token);
  stream.finish({});
  const auto took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (result != nullptr) *result = stream.result().tool_calls.at(0).arguments;
  return took;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(OutputParser, CostIsLinear) {
  constexpr int kPairs = 4096;
  std::string pairs;
  for (int i = 0; i < kPairs; ++i)
    pairs += cat("<arg_key>k", i, "</arg_key><arg_value>some value ", i, "</arg_value>");
  std::string result;
  // A quadratic parser needs minutes for any of these.
  EXPECT_LT(seconds(put(pairs), &result), 5);
  EXPECT_EQ(parse_python_json(result, "arguments").size(), size_t{kPairs});
  const std::string open = "</think><tool_call>put<arg_key>body</arg_key><arg_value>";
  constexpr int kMany = 100000;
  EXPECT_LT(seconds(open + repeated("a </tool_call> ", kMany)), 20);
  EXPECT_LT(seconds(open + repeated("a </arg_value> ", kMany)), 20);
  EXPECT_LT(seconds(open + repeated("a </arg_value></tool_call><tool_call>put<arg_key>n</arg_key><arg_value>",
                                    kMany)),
            20);
  EXPECT_LT(seconds("</think>" + repeated(open.substr(8) + "v</tool_call>", kMany)), 20);
  EXPECT_LT(seconds(open + "v</arg_value> junk" + repeated("</tool_call> \n ", kMany)), 20);
  EXPECT_LT(seconds("</think>" + repeated(" \n", kMany) + "a" + repeated("<tool_call>", kMany)), 20);
  EXPECT_LT(seconds(repeated(" ", kMany) + "a</think>" + repeated("<tool_call>ping</tool_call> ", 20000)),
            20);
}

}  // namespace
}  // namespace glint::test
