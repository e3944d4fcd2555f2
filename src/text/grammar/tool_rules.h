// What the calls of a request's tools may look like: names, keys, and what each value may be. Built once a
// request, immutable afterwards.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/chat_request.h"
#include "text/grammar/grammar_cache.h"
#include "text/output_tags.h"

namespace glint {

/// How far the sampler sees to it that a call is one of a declared tool.
enum class ToolCallConstraintMode : uint8_t {
  off,     // never: tool_choice required and named are refused
  forced,  // where tool_choice demands a call
  all,     // wherever there are tools
};

struct ArgumentRule {
  enum class Kind : uint8_t {
    any_text,  // ordinary tokens
    one_of,    // one of `texts`
    grammar,   // what `grammar` accepts
  };
  std::string key;
  bool required = false;
  Kind kind = Kind::any_text;
  std::vector<std::string> texts;
  std::shared_ptr<const CompiledGrammar> grammar;
};

struct ToolRule {
  std::string name;
  std::vector<ArgumentRule> arguments;  // the declared keys, each at most once
  bool any_key = false;                 // no keys are declared, but some may come: any key, any text
};

/// The rule of one property: `schema` of `key` inside the tool's `parameters`. A value is text that
/// coerce_argument() (text/argument_coercion.h) turns into what the schema accepts; what cannot be enforced
/// (see docs/structured-output.md) is left out, down to the types alone.
ArgumentRule argument_rule(const std::string& key, const OrderedJson& schema, const OrderedJson& parameters,
                           GrammarCache& grammars);

/// `only`: the named tool, or empty for all. Of tools with one name the first counts.
std::vector<ToolRule> make_tool_rules(std::span<const ToolDefinition> tools, std::string_view only,
                                      GrammarCache& grammars);

}  // namespace glint
