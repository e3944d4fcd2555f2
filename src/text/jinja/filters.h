// The filters by subject. Private to apply_filter.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/builtins.h"

namespace glint::jinja {

using Filter = Value (*)(const Value&, const Arguments&);
using FilterTable = std::vector<std::pair<std::string_view, Filter>>;

const FilterTable& text_filters();    // of strings and numbers
const FilterTable& list_filters();    // of lists
const FilterTable& select_filters();  // map, select, reject and their attribute forms

/// value.a.b.0 along the dotted `path`; undefined where a step is missing.
Value value_at(const Value& value, const Value& path);

}  // namespace glint::jinja
