#include "server/openapi.h"

#include <cctype>
#include <string_view>

#include "base/json.h"

namespace glint {

namespace {

OrderedJson operation(const std::string& path, bool with_body) {
  OrderedJson operation;
  operation["summary"] = path;
  const OrderedJson any_object = {{"application/json", {{"schema", {{"type", "object"}}}}}};
  if (with_body) operation["requestBody"] = {{"content", any_object}};
  operation["responses"]["200"]["description"] = "OK";
  operation["responses"]["default"]["description"] = "An error in OpenAI's form";
  return operation;
}

}  // namespace

std::string openapi_document(const std::vector<std::string>& routes) {
  OrderedJson document;
  document["openapi"] = "3.1.0";
  document["info"] = {{"title", "Glint"}, {"version", GLINT_VERSION}};
  document["paths"] = OrderedJson::object();
  for (const std::string& line : routes) {
    const std::string path = line.substr(0, line.find(','));
    OrderedJson& item = document["paths"][path];
    for (const std::string_view method : {"GET", "POST", "DELETE"}) {
      if (line.find(method, path.size()) == std::string::npos) continue;
      std::string name(method);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      item[name] = operation(path, method == "POST");
    }
  }
  return dump_json(document);
}

}  // namespace glint
