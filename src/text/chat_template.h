// The chat template of GLM-5.3 and GLM-5.2 as native code: a request becomes the exact prompt text.
//
// The rules are those of the text layer ("Exact rules", "GLM-5.2 differences"). A model folder's template is
// never executed; it is recognised by its signature, and two switches are read from it: whether the effort
// `low` exists, and whether `enable_thinking` can close the think block. Anything else is refused, never
// approximated.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "text/chat_request.h"

namespace glint {

struct RenderedChat {
  std::string prompt;                // encode with Tokenizer::encode(prompt, /*add_special_tokens=*/false)
  bool starts_in_reasoning = false;  // after the last <|assistant|> the last think tag is an opening one
};

class ChatTemplate {
 public:
  /// The template of a model folder: chat_template.jinja, else `chat_template` in tokenizer_config.json.
  /// Throws not_found if there is neither, unsupported (one line, with the mark that is missing) for a
  /// template of another family.
  static ChatTemplate load(const std::filesystem::path& model_dir);
  /// The same from the template's text; `what` names it in errors.
  static ChatTemplate recognise(std::string_view source, std::string_view what);
  /// GLM-5.3: efforts low, high and max; the think block is always open.
  static ChatTemplate glm53() { return {true, false}; }
  /// GLM-5.2: efforts high and max; enable_thinking=false closes the think block.
  static ChatTemplate glm52() { return {false, true}; }

  [[nodiscard]] bool has_low_effort() const { return has_low_effort_; }
  [[nodiscard]] bool has_thinking_switch() const { return has_thinking_switch_; }

  /// Throws RequestError for what a template would fail on: tool references without tools,
  /// continue_final_message after tool calls. Thread-safe, linear in the request (tool references: times the
  /// number of tools).
  [[nodiscard]] RenderedChat render(const ChatRequest& request) const;

 private:
  ChatTemplate(bool has_low_effort, bool has_thinking_switch)
      : has_low_effort_(has_low_effort), has_thinking_switch_(has_thinking_switch) {}

  bool has_low_effort_;
  bool has_thinking_switch_;
};

/// Where generation starts after `prompt`: true if the text after the last role marker, which must be
/// <|assistant|>, has <think> as its last think tag. Tags of earlier turns say nothing.
bool prompt_opens_reasoning(std::string_view prompt);

}  // namespace glint
