#include "text/jinja/template.h"

#include "text/jinja/parser.h"
#include "text/jinja/renderer.h"

namespace glint::jinja {

struct Template::Parsed {
  std::string what;
  Body body;
};

Template Template::compile(std::string_view source, std::string_view what) {
  auto parsed = std::make_shared<Parsed>();
  parsed->what = what;
  parsed->body = parse(source, parsed->what);
  return Template(std::move(parsed));
}

std::string Template::render(const Dict& variables, const Limits& limits) const {
  return Renderer(parsed_->what, variables, limits).run(parsed_->body);
}

}  // namespace glint::jinja
