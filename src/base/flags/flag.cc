#include "base/flags/flag.h"

#include "base/error.h"

namespace glint {

namespace {

Flag named(std::string name, FlagKind kind) {
  Flag flag;
  flag.name = std::move(name);
  flag.kind = kind;
  return flag;
}

std::string any_text(std::string_view text) {
  return std::string(text);
}

}  // namespace

Flag& Flag::help(std::string text) & {
  help_text = std::move(text);
  return *this;
}
Flag&& Flag::help(std::string text) && {
  help_text = std::move(text);
  return std::move(*this);
}
Flag&& Flag::metavar(std::string text) && {
  value_name = std::move(text);
  return std::move(*this);
}
Flag&& Flag::alias(std::string long_name) && {
  aliases.push_back(std::move(long_name));
  return std::move(*this);
}
Flag&& Flag::short_name(std::string text) && {
  shorts.push_back(std::move(text));
  return std::move(*this);
}
Flag&& Flag::off_name(std::string long_name) && {
  off_names.push_back(std::move(long_name));
  return std::move(*this);
}
Flag&& Flag::key(std::string key_name, std::string text) && {
  object_keys.push_back({std::move(key_name), std::move(text)});
  return std::move(*this);
}
Flag&& Flag::env(std::string variable) && {
  environment.push_back(std::move(variable));
  return std::move(*this);
}
Flag&& Flag::only(std::string form) && {
  forms.push_back(std::move(form));
  return std::move(*this);
}
Flag&& Flag::form_default(std::string form, std::string text) && {
  form_defaults.emplace_back(std::move(form), std::move(text));
  return std::move(*this);
}
Flag&& Flag::default_text(std::string text) && {
  default_shown = std::move(text);
  return std::move(*this);
}
Flag&& Flag::secret() && {
  is_secret = true;
  return std::move(*this);
}

Flag toggle_flag(std::string name, bool& target) {
  Flag flag = named(std::move(name), FlagKind::toggle);
  flag.default_shown = target ? "on" : "";
  flag.read = [](std::string_view text) { return std::string(read_switch(text) ? "on" : "off"); };
  flag.store = [&target](const std::vector<std::string>& texts) { target = read_switch(texts.front()); };
  return flag;
}

Flag object_flag(std::string name, OrderedJson& target) {
  Flag flag = named(std::move(name), FlagKind::object);
  flag.value_name = "JSON";
  flag.read = any_text;
  flag.store_object = [&target](const OrderedJson& value) { target = value; };
  return flag;
}

Flag list_flag(std::string name, std::vector<std::string>& target) {
  Flag flag = named(std::move(name), FlagKind::list);
  flag.read = any_text;
  flag.store = [&target](const std::vector<std::string>& texts) { target = texts; };
  return flag;
}

Flag no_effect_flag(std::string name, FlagKind kind, std::string reason, std::vector<std::string> choices) {
  Flag flag = named(std::move(name), kind);
  flag.no_effect_reason = std::move(reason);
  flag.read = any_text;
  if (!choices.empty()) flag.read = Choice{choices};
  flag.choices = std::move(choices);
  flag.store = [](const std::vector<std::string>&) {};
  flag.store_object = [](const OrderedJson&) {};
  return flag;
}

Flag no_effect_number(std::string name, std::string reason) {
  Flag flag = no_effect_flag(std::move(name), FlagKind::value, std::move(reason));
  flag.read = AnyNumber{};
  return flag;
}

Flag refused_flag(std::string name, FlagKind kind, std::string reason) {
  Flag flag = named(std::move(name), kind);
  flag.refused_reason = std::move(reason);
  flag.read = any_text;
  flag.store = [](const std::vector<std::string>&) {};
  flag.store_object = [](const OrderedJson&) {};
  return flag;
}

}  // namespace glint
