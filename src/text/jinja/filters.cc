#include "text/jinja/filters.h"

#include <array>

namespace glint::jinja {

namespace {

const Filter* find_filter(std::string_view name) {
  for (const FilterTable* table : std::array{&text_filters(), &list_filters(), &select_filters()}) {
    for (const auto& [key, filter] : *table) {
      if (key == name) return &filter;
    }
  }
  return nullptr;
}

}  // namespace

bool has_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

std::string filter_names() {
  std::string out;
  for (const FilterTable* table : std::array{&text_filters(), &list_filters(), &select_filters()}) {
    for (const auto& [name, filter] : *table) out.append(out.empty() ? "" : ", ").append(name);
  }
  return out;
}

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments) {
  const Filter* filter = find_filter(name);
  if (filter == nullptr) raise("the filter '", name, "' is not known");
  return (*filter)(value, arguments);
}

}  // namespace glint::jinja
