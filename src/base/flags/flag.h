// A flag of a command line, declared once: the parser, help, man page and completions all read this.
//
//   table.group("HTTP server");
//   table.add(value_flag("port", settings.port, WholeNumber{0, 65535})
//                 .metavar("PORT")
//                 .help("Port to listen on; 0: any free one, which is printed")
//                 .form_default("launch_server", "30000"));
//
// A flag is bound to a variable, which holds the default before parsing and the value after it. Readers
// (readers.h) turn text into values and throw the reason alone; the parser puts "argument --port: " before
// it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/flags/readers.h"
#include "base/json.h"

namespace glint {

enum class FlagKind {
  toggle,  // --x and --no-x
  value,   // --x VALUE
  list,    // --x VALUE [VALUE ...]
  object   // --x '{"key": value}' and --x.key value, merged
};

struct FlagKey {
  std::string name;
  std::string help;
};

struct Flag {
  std::string name;  // without dashes, "tensor-parallel-size"
  FlagKind kind = FlagKind::value;
  std::string group_name;  // set by FlagTable::add
  std::string help_text;
  std::string value_name = "VALUE";
  std::vector<std::string> aliases;      // other long names, of either vocabulary
  std::vector<std::string> shorts;       // "tp" for -tp
  std::vector<std::string> off_names;    // of a toggle: other long names that say "off"
  std::vector<std::string> choices;      // empty: not a choice
  std::vector<FlagKey> object_keys;      // of an object; empty: any key
  std::vector<std::string> environment;  // variables read if neither command line nor file say anything
  std::vector<std::string> forms;        // program forms that have the flag; empty: all
  std::vector<std::pair<std::string, std::string>> form_defaults;
  std::string default_shown;
  std::string no_effect_reason;  // accepted, with a warning
  std::string refused_reason;    // known elsewhere, refused
  bool is_secret = false;        // values never appear in messages

  /// Checks a text and gives its plain form, by which two spellings are compared. Throws Error with the
  /// reason.
  std::function<std::string(std::string_view)> read;
  /// Puts the texts (one, but for a list) or, for an object, the merged value into the bound variable.
  std::function<void(const std::vector<std::string>&)> store;
  std::function<void(const OrderedJson&)> store_object;

  Flag& help(std::string text) &;
  Flag&& help(std::string text) &&;
  Flag&& metavar(std::string text) &&;
  Flag&& alias(std::string long_name) &&;
  Flag&& short_name(std::string text) &&;
  Flag&& off_name(std::string long_name) &&;
  Flag&& key(std::string key_name, std::string text) &&;
  Flag&& env(std::string variable) &&;
  /// The flag exists in this form of the program only; may be called several times.
  Flag&& only(std::string form) &&;
  Flag&& form_default(std::string form, std::string text) &&;
  /// What help says of the default, where the variable's own value says nothing.
  Flag&& default_text(std::string text) &&;
  Flag&& secret() &&;
};

/// --x stores true, --no-x false.
Flag toggle_flag(std::string name, bool& target);
/// --x '{"a": 1}', --x.a 1, --x.a.b 1, --x.list+ 1,2: one object.
Flag object_flag(std::string name, OrderedJson& target);
/// At least one word each time; the target holds the last time's.
Flag list_flag(std::string name, std::vector<std::string>& target);

/// Exists elsewhere and changes nothing here: accepted with a warning that gives the reason ("the kernels are
/// compiled ahead of time"). Values are checked against `choices` if there are any.
Flag no_effect_flag(std::string name, FlagKind kind, std::string reason,
                    std::vector<std::string> choices = {});
/// The same for a flag whose values are numbers, which is checked ("4", "0.5", "-1", "8G", "inf").
Flag no_effect_number(std::string name, std::string reason);
/// Exists elsewhere and cannot be done here: refused with the reason.
Flag refused_flag(std::string name, FlagKind kind, std::string reason);

template <class Target, class Reader>
Flag value_flag(std::string name, Target& target, Reader reader) {
  Flag flag;
  flag.name = std::move(name);
  flag.default_shown = shown_value(reader, target);
  flag.choices = choices_of(reader);
  flag.read = [reader](std::string_view text) {
    std::string plain = plain_text(reader(text));
    return plain.empty() ? std::string(text) : plain;
  };
  flag.store = [reader, &target](const std::vector<std::string>& texts) { target = reader(texts.front()); };
  return flag;
}

}  // namespace glint
