// Renders templates for the comparison with Python's jinja2: one JSON object a line, {"template": ...,
// "variables": {...}}, to {"text": ...} or {"error": ...}.
#include <iostream>
#include <string>

#include "text/jinja/template.h"
#include "text/python_json.h"

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    glint::OrderedJson answer;
    try {
      const glint::OrderedJson request = glint::parse_python_json(line, "line");
      const auto parsed =
          glint::jinja::Template::compile(request["template"].get_ref<const std::string&>(), "template");
      answer["text"] = parsed.render(glint::jinja::Value::from_json(request["variables"]).dict());
    } catch (const glint::Error& error) {
      answer["error"] = error.what();
    }
    std::cout << answer.dump() << "\n" << std::flush;
  }
}
