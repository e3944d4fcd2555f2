// Prompts, byte for byte: the template cases, and random requests rendered by Python's jinja2
// (tools/make_chat_prompts.py).
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "text/standin_tokenizer.h"
#include "text_cases.h"

namespace glint::test {
namespace {

std::string prompt_of(const ChatTemplate& chat_template, const OrderedJson& request) {
  return chat_template.render(parse_chat_request(request)).prompt;
}

std::string prompt_of(const std::string& request) {
  return prompt_of(ChatTemplate::glm53(), parse_python_json(request, "request"));
}

/// What stands between the effort line and the generation prompt.
std::string turns_of(const std::string& messages) {
  const std::string prompt = prompt_of(R"({"messages": )" + messages + "}");
  const std::string head = "[gMASK]<sop><|system|>Reasoning Effort: Max";
  const std::string tail = "<|assistant|><think>";
  EXPECT_TRUE(prompt.starts_with(head) && prompt.ends_with(tail)) << prompt;
  return prompt.substr(head.size(), prompt.size() - head.size() - tail.size());
}

/// A template text with the marks of the family and the given switches.
std::string source(bool low, bool thinking_switch) {
  return std::string(
             "[gMASK]<sop> Reasoning Effort: reasoning_effort clear_thinking <arg_key> <|assistant|> "
             "<|observation|> <tool_response> ") +
         (low ? "['low', 'high'] " : "['high'] ") + (thinking_switch ? "enable_thinking" : "");
}

TEST(ChatTemplate, TextCases) {
  int cases = 0;
  for (const OrderedJson& line : text_cases()) {
    if (line["kind"] != "template") continue;
    ++cases;
    EXPECT_EQ(prompt_of(ChatTemplate::glm53(), line["request"]),
              line["expected"]["prompt"].get<std::string>())
        << line["id"];
  }
  EXPECT_EQ(cases, 31);
}

TEST(ChatTemplate, EqualsJinjaOnRandomRequests) {
  int cases = 0;
  for (const OrderedJson& line : json_lines("chat-prompts.jsonl")) {
    ++cases;
    const std::string name = line["template"].get<std::string>();
    const ChatTemplate chat_template = name == "always" ? ChatTemplate::recognise(source(true, false), name)
                                       : name == "switch"
                                           ? ChatTemplate::recognise(source(true, true), name)
                                           : ChatTemplate::recognise(source(false, true), name);
    EXPECT_EQ(prompt_of(chat_template, line["request"]), line["prompt"].get<std::string>()) << line.dump();
  }
  EXPECT_EQ(cases, 75);
}

/// The stand-in's template: GLM-5.3's rules as Jinja.
ChatTemplate interpreted_standin() {
  return ChatTemplate::interpreted(standin_chat_template(), "chat_template.jinja");
}

TEST(ChatTemplate, TheInterpreterRendersTheTextCases) {
  const ChatTemplate chat_template = interpreted_standin();
  int cases = 0;
  for (const OrderedJson& line : text_cases()) {
    if (line["kind"] != "template") continue;
    ++cases;
    EXPECT_EQ(prompt_of(chat_template, line["request"]), line["expected"]["prompt"].get<std::string>())
        << line["id"];
  }
  EXPECT_EQ(cases, 31);
}

TEST(ChatTemplate, TheInterpreterRendersRandomRequests) {
  const ChatTemplate chat_template = interpreted_standin();
  int cases = 0;
  for (const OrderedJson& line : json_lines("chat-prompts.jsonl")) {
    if (line["template"] != "always") continue;
    ++cases;
    EXPECT_EQ(prompt_of(chat_template, line["request"]), line["prompt"].get<std::string>()) << line.dump();
  }
  EXPECT_GT(cases, 20);
}

std::string changed_standin(std::string_view from, std::string_view to) {
  std::string text(standin_chat_template());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(ChatTemplate, AKnownTemplateIsRenderedNatively) {
  const ChatTemplate chat_template = ChatTemplate::from_source(standin_chat_template(), "t");
  EXPECT_FALSE(chat_template.is_interpreted()) << chat_template.note();
  EXPECT_EQ(chat_template.note(), "GLM-5's rules, natively");
}

TEST(ChatTemplate, WhereATemplateDiffersTheInterpreterRenders) {
  const std::string source = changed_standin("<|assistant|><think>' ~", "<|assistant|>\n<think>' ~");
  const ChatTemplate chat_template = ChatTemplate::from_source(source, "t");
  EXPECT_TRUE(chat_template.is_interpreted());
  EXPECT_NE(chat_template.note().find("earlier reasoning"), std::string::npos) << chat_template.note();
  const OrderedJson request = parse_python_json(
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
      "request");
  EXPECT_EQ(prompt_of(chat_template, request),
            "[gMASK]<sop><|system|>Reasoning Effort: "
            "Max<|user|>q<|assistant|>\n<think></think>a<|assistant|><think>");
}

constexpr std::string_view kForeign =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
    "{% if messages[-1].role == 'tool' %}{{ raise_exception('no tools, please') }}{% endif %}"
    "{% if mood is defined %}[{{ mood.colour }}]{% endif %}{% if add_generation_prompt %}<assistant>{% endif "
    "%}";

TEST(ChatTemplate, AnotherFamilysTemplateIsInterpreted) {
  const ChatTemplate chat_template = ChatTemplate::from_source(kForeign, "t");
  EXPECT_TRUE(chat_template.is_interpreted());
  const auto prompt = [&](const char* request) {
    return prompt_of(chat_template, parse_python_json(request, "request"));
  };
  EXPECT_EQ(prompt(R"({"messages": [{"role": "user", "content": "q {{ 1 }}"}],
                       "chat_template_kwargs": {"mood": {"colour": "blue"}}})"),
            "<user>q {{ 1 }}</user>[blue]<assistant>");
  EXPECT_EQ(
      prompt(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "so far"}],
                       "continue_final_message": true})"),
      "<user>q</user><assistant>so far");
  try {
    prompt(R"({"messages": [{"role": "tool", "content": "r"}]})");
    FAIL() << "no exception";
  } catch (const RequestError& error) {
    EXPECT_EQ(error.param(), "messages");
    EXPECT_STREQ(error.what(), "the chat template refuses the request: no tools, please");
  }
}

TEST(ChatTemplate, FaultsOfATemplateHaveAPlace) {
  const auto refusal = [](std::string_view source) -> std::string {
    try {
      ChatTemplate::from_source(source, "t.jinja");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("a\n {{ 1 + }}"), "t.jinja:2:9: expected an expression, found the end of the expression");
  EXPECT_EQ(refusal("{% include 'x' %}").substr(0, 36), "t.jinja:1:4: the statement 'include'");
  EXPECT_EQ(refusal("{{ x|nosuch }}").substr(0, 39), "t.jinja:1:6: the filter 'nosuch' is not");
  EXPECT_EQ(refusal("{% if x %}").substr(0, 14), "t.jinja:1:11: ");
}

TEST(ChatTemplate, ARunawayTemplateIsStopped) {
  const auto fails = [](std::string_view source) {
    const ChatTemplate chat_template = ChatTemplate::interpreted(source, "t");
    EXPECT_THROW(
        prompt_of(chat_template,
                  parse_python_json(R"({"messages": [{"role": "user", "content": "q"}]})", "request")),
        RequestError)
        << source;
  };
  fails("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
  fails("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  fails("{% set ns = namespace(s='ab') %}{% for a in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
}

TEST(ChatTemplate, PublishedKinds) {
  EXPECT_TRUE(ChatTemplate::glm53().has_low_effort());
  EXPECT_FALSE(ChatTemplate::glm53().has_thinking_switch());
  const OrderedJson off = parse_python_json(
      R"({"messages": [{"role": "user", "content": "q"}], "reasoning_effort": "low",
          "chat_template_kwargs": {"enable_thinking": false}})",
      "request");
  const RenderedChat rendered = ChatTemplate::glm52().render(parse_chat_request(off));
  EXPECT_EQ(rendered.prompt,
            "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>q<|assistant|><think></think>");
  EXPECT_FALSE(rendered.starts_in_reasoning);
  EXPECT_TRUE(ChatTemplate::glm53().render(parse_chat_request(off)).starts_in_reasoning);
}

TEST(ChatTemplate, EffortNoneTurnsThinkingOffOnlyWhereThereIsASwitch) {
  const OrderedJson none = parse_python_json(
      R"({"messages": [{"role": "user", "content": "q"}], "reasoning_effort": "none"})", "request");
  EXPECT_TRUE(prompt_of(ChatTemplate::glm53(), none).ends_with("<|assistant|><think>"));
  EXPECT_TRUE(prompt_of(ChatTemplate::glm52(), none).ends_with("<|assistant|><think></think>"));
}

TEST(ChatTemplate, ToolResultsAreSortedByCall) {
  const std::string calls = R"({"role": "assistant", "tool_calls": [
      {"id": "a", "function": {"name": "f"}}, {"id": "b", "function": {"name": "g"}}]})";
  const std::string turn =
      "<|assistant|><think></think><tool_call>f</tool_call><tool_call>g</tool_call><|observation|>";
  EXPECT_EQ(turns_of("[" + calls + R"(, {"role": "tool", "tool_call_id": "b", "content": "B"},
                                      {"role": "tool", "tool_call_id": "a", "content": "A"}])"),
            turn + "<tool_response>A</tool_response><tool_response>B</tool_response>");
  // An entry list carries its own ids.
  EXPECT_EQ(turns_of("[" + calls + R"(, {"role": "tool", "content": [{"output": "B", "id": "b"},
                                      {"output": [{"type": "text", "text": "A"}], "tool_call_id": "a"}]}])"),
            turn + "<tool_response>A</tool_response><tool_response>B</tool_response>");
  // Without an id nothing is certain.
  EXPECT_EQ(turns_of("[" + calls + R"(, {"role": "tool", "content": "B"},
                                      {"role": "tool", "tool_call_id": "a", "content": "A"}])"),
            turn + "<tool_response>B</tool_response><tool_response>A</tool_response>");
}

TEST(ChatTemplate, BigIntegersAndFloatsKeepPythonsForm) {
  EXPECT_EQ(
      turns_of(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments":
              "{\"i\": 123456789012345678901234567890, \"x\": 1.50, \"e\": 1E5, \"d\": 1, \"i\": -98765432109876543210}"}}]}])"),
      "<|assistant|><think></think><tool_call>f<arg_key>i</arg_key><arg_value>-98765432109876543210</"
      "arg_value>"
      "<arg_key>x</arg_key><arg_value>1.5</arg_value><arg_key>e</arg_key><arg_value>100000.0</arg_value>"
      "<arg_key>d</arg_key><arg_value>1</arg_value></tool_call>");
}

TEST(ChatTemplate, ContinuesTheFinalMessage) {
  const auto rendered = [](const std::string& messages) {
    return ChatTemplate::glm53().render(parse_chat_request(
        parse_python_json(R"({"continue_final_message": true, "messages": )" + messages + "}", "request")));
  };
  const RenderedChat answer =
      rendered(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": " So "}])");
  EXPECT_TRUE(answer.prompt.ends_with("<|user|>q<|assistant|><think></think>So"));
  EXPECT_FALSE(answer.starts_in_reasoning);
  EXPECT_TRUE(rendered(R"([{"role": "assistant", "content": "<think>I wonder"}])").starts_in_reasoning);
  EXPECT_THROW(rendered(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}])"),
               RequestError);
  EXPECT_THROW(rendered(R"([{"role": "tool", "content": "x"}])"), RequestError);
  EXPECT_THROW(rendered(R"([{"role": "user", "content": "x"}])"), RequestError);
}

TEST(ChatTemplate, StartStateLooksAtTheLastTurnOnly) {
  EXPECT_TRUE(prompt_opens_reasoning("<|user|>a</think>b<|assistant|><think>"));
  EXPECT_TRUE(prompt_opens_reasoning("<|assistant|></think><think>"));
  EXPECT_FALSE(prompt_opens_reasoning("<|assistant|><think>r</think>c"));
  EXPECT_FALSE(prompt_opens_reasoning("<|assistant|><think>r<|user|>q"));
  EXPECT_FALSE(prompt_opens_reasoning("<|user|>say <think>"));
  EXPECT_FALSE(prompt_opens_reasoning("<think>"));
  EXPECT_TRUE(prompt_opens_reasoning("<|assistant|><think>a <| b"));
}

TEST(ChatTemplate, ForeignTemplatesAreRefusedByName) {
  for (const std::string mark : {"[gMASK]<sop>", "Reasoning Effort:", "<arg_key>", "<|observation|>"}) {
    std::string text = source(true, false);
    text.erase(text.find(mark), mark.size());
    try {
      ChatTemplate::recognise(text, "dir/chat_template.jinja");
      ADD_FAILURE() << mark;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      const std::string line = error.what();
      EXPECT_NE(line.find(mark), std::string::npos) << line;
      EXPECT_NE(line.find("dir/chat_template.jinja"), std::string::npos) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
  }
}

TEST(ChatTemplate, LoadsEitherFileOfAFolder) {
  const auto dir = std::filesystem::temp_directory_path() / ("glint_template_" + std::to_string(::getpid()));
  std::filesystem::create_directories(dir);
  EXPECT_THROW(ChatTemplate::load(dir), Error);
  const OrderedJson question =
      parse_python_json(R"({"messages": [{"role": "user", "content": "q"}]})", "request");
  const auto prompt = [&] { return prompt_of(ChatTemplate::load(dir), question); };
  OrderedJson config;
  config["chat_template"] = "one {{ messages[0].content }}";
  write_file_atomically(dir / "tokenizer_config.json", config.dump());
  EXPECT_EQ(prompt(), "one q");
  config["chat_template"] = {{{"name", "other"}, {"template", "-"}},
                             {{"name", "default"}, {"template", "two"}}};
  write_file_atomically(dir / "tokenizer_config.json", config.dump());
  EXPECT_EQ(prompt(), "two");
  write_file_atomically(dir / "chat_template.jinja", standin_chat_template());
  EXPECT_FALSE(ChatTemplate::load(dir).is_interpreted());
  EXPECT_EQ(prompt(), "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>q<|assistant|><think>");
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace glint::test
