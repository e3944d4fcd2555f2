// Chat templates: a request becomes the exact prompt text.
//
// GLM-5.3's and GLM-5.2's are rendered by native code; the rules are those of the text layer ("Exact rules",
// "GLM-5.2 differences"). Such a template is recognised by its signature, and two switches are read from it:
// whether the effort `low` exists, and whether `enable_thinking` can close the think block. What the
// signature cannot tell, a rehearsal does: the template is run beside the native rules on conversations that
// touch every rule, and where one byte differs, as for every other template, our Jinja interpreter renders.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "text/chat_request.h"
#include "text/jinja/template.h"

namespace glint {

struct RenderedChat {
  std::string prompt;                // encode with Tokenizer::encode(prompt, /*add_special_tokens=*/false)
  bool starts_in_reasoning = false;  // after the last <|assistant|> the last think tag is an opening one
};

class ChatTemplate {
 public:
  /// The template of a model folder: chat_template.jinja, else `chat_template` in tokenizer_config.json.
  /// Throws not_found if there is neither, otherwise as from_source.
  static ChatTemplate load(const std::filesystem::path& model_dir);
  /// --chat-template: the name of a file, or a template's text (it holds "{{", "{%" or "{#").
  static ChatTemplate from_flag(const std::string& file_or_text);
  /// The native rules if the template's text is known to mean them, else the interpreter. `what` names it in
  /// errors. Throws bad_input (line and column) for a syntax error, unsupported for what the interpreter
  /// lacks, unless the signature is GLM-5's: then the native rules are taken, and note() tells.
  static ChatTemplate from_source(std::string_view source, std::string_view what);
  /// By the signature alone. Throws unsupported (one line, with the mark that is missing) for a template of
  /// another family.
  static ChatTemplate recognise(std::string_view source, std::string_view what);
  /// Always by the interpreter.
  static ChatTemplate interpreted(std::string_view source, std::string_view what);
  /// GLM-5.3: efforts low, high and max; the think block is always open.
  static ChatTemplate glm53() { return {true, false}; }
  /// GLM-5.2: efforts high and max; enable_thinking=false closes the think block.
  static ChatTemplate glm52() { return {false, true}; }

  [[nodiscard]] bool has_low_effort() const { return has_low_effort_; }
  [[nodiscard]] bool has_thinking_switch() const { return has_thinking_switch_; }
  [[nodiscard]] bool is_interpreted() const { return interpreter_.has_value(); }
  /// One line for the log: who renders, and why.
  [[nodiscard]] const std::string& note() const { return note_; }

  /// Throws RequestError for what a template would fail on: tool references without tools,
  /// continue_final_message after tool calls, raise_exception. Thread-safe, linear in the request (tool
  /// references: times the number of tools).
  [[nodiscard]] RenderedChat render(const ChatRequest& request) const;

 private:
  ChatTemplate(bool has_low_effort, bool has_thinking_switch)
      : has_low_effort_(has_low_effort), has_thinking_switch_(has_thinking_switch) {}

  [[nodiscard]] std::string interpret(const ChatRequest& request) const;

  bool has_low_effort_;
  bool has_thinking_switch_;
  std::optional<jinja::Template> interpreter_;
  std::string note_ = "GLM-5's rules, natively";
};

/// Where generation starts after `prompt`: true if the text after the last role marker, which must be
/// <|assistant|>, has <think> as its last think tag. Tags of earlier turns say nothing.
bool prompt_opens_reasoning(std::string_view prompt);

}  // namespace glint
