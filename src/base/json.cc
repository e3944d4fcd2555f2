#include "base/json.h"

#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace glint {

namespace {

/// Watches the limits while the library parses.
class LimitWatch {
 public:
  LimitWatch(std::string_view what, const JsonLimits& limits) : what_(what), limits_(limits) {}

  template <class Value>
  bool operator()(int depth, nlohmann::detail::parse_event_t event, Value& parsed) {
    using Event = nlohmann::detail::parse_event_t;
    if (++values_ > limits_.values_max) refuse("more than ", limits_.values_max, " values");
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        if (depth >= limits_.depth_max) refuse("nested deeper than ", limits_.depth_max, " levels");
        open_.emplace_back();
        break;
      case Event::object_end:
      case Event::array_end:
        open_.pop_back();
        break;
      case Event::key:
        count_key(parsed.template get_ref<const std::string&>());
        break;
      case Event::value:
        break;
    }
    return true;
  }

 private:
  struct Level {
    size_t keys = 0;
    std::unordered_set<std::string> names;
  };

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorKind::bad_input, what_, ": ", parts...);
  }

  void count_key(const std::string& key) {
    Level& level = open_.back();
    if (++level.keys > limits_.keys_max) refuse("an object with more than ", limits_.keys_max, " keys");
    if (limits_.refuse_duplicate_keys && !level.names.insert(key).second)
      refuse("the key \"", key, "\" stands twice");
  }

  std::string_view what_;
  const JsonLimits& limits_;
  size_t values_ = 0;
  std::vector<Level> open_;
};

template <class Value>
Value parse(std::string_view text, std::string_view what, const JsonLimits& limits) {
  LimitWatch watch(what, limits);
  try {
    return Value::parse(text, [&](int depth, nlohmann::detail::parse_event_t event, Value& parsed) {
      return watch(depth, event, parsed);
    });
  } catch (const nlohmann::json::parse_error& error) {
    // The library's text is "[json.exception.parse_error.101] parse error at line 1, column 2: reason".
    std::string_view reason = error.what();
    if (const auto bracket = reason.find("] "); bracket != std::string_view::npos)
      reason.remove_prefix(bracket + 2);
    fail(ErrorKind::bad_input, what, ": not valid JSON: ", reason.substr(0, 300));
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::bad_input, what, ": not valid JSON: ", error.what());
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  return parse<Json>(text, what, limits);
}

OrderedJson parse_ordered_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  return parse<OrderedJson>(text, what, limits);
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string dump_json(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace glint
