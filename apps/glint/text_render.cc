// glint text render: the prompt that a chat request becomes.

#include <iostream>

#include "text/chat_request.h"
#include "text/chat_template.h"
#include "text/python_json.h"
#include "text_case.h"
#include "text_commands.h"

namespace glint {

namespace {

OrderedJson render(const ChatTemplate& chat_template, const OrderedJson& line) {
  const auto request = line.find("request");
  const ChatRequest parsed = parse_chat_request(request == line.end() ? line : *request);
  for (const std::string& warning : parsed.warnings) std::cerr << "glint: " << warning << "\n";
  OrderedJson out;
  out["prompt"] = chat_template.render(parsed).prompt;
  return out;
}

void run(const TextFlags& flags) {
  const ChatTemplate chat_template =
      flags.model.empty() ? ChatTemplate::glm53() : ChatTemplate::load(flags.model);
  for_each_line(flags, [&](std::string_view line, std::string_view place) {
    return answer_case(line, place, [&](const OrderedJson& parsed) { return render(chat_template, parsed); });
  });
}

}  // namespace

void add_text_render(CLI::App& text) {
  CLI::App* const command = add_text_command(text, "render", "Chat requests to prompts", run);
  command->footer(
      "Each line is {\"request\": {\"messages\": [...], \"tools\": [...], ...}} or the request itself; the "
      "answer is\n"
      "{\"prompt\": ...}, or {\"error\": {\"message\", \"param\"}} for a request that the server would "
      "refuse. An \"id\" of\n"
      "the line is repeated. Without --model the rules of GLM-5.3 count.");
}

}  // namespace glint
