// What a grammar may cost. Compiling takes time in proportion to the number of positions in the grammar, and
// much more at a position where most of the vocabulary can stand, so that is what is counted, before anything
// is built.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace glint {

inline constexpr size_t kRegexBytesMax = 4096;
inline constexpr size_t kGrammarBytesMax = size_t{64} << 10;
/// Positions of a regular expression or grammar with its counted repetitions written out: a{3} has 3.
/// Measured with 154,880 ids: a position of one character takes some microseconds, one of a wide class ([^x],
/// \w, .) up to 5 ms.
inline constexpr int64_t kGrammarPositionsMax = 20'000;
inline constexpr int64_t kWidePosition = 50;  // counts as so many
/// Of the grammar that a schema becomes: its rules are mostly names and literals, and repeat each other. What
/// takes too long in spite of that is found out by the clock (GrammarCacheOptions::compile_time).
inline constexpr int64_t kSchemaPositionsMax = 1'000'000;
inline constexpr int64_t kRulePosition = 20;  // a rule's name in a grammar

/// Throw bad_input, naming the limit.
void check_regex_text(std::string_view regex);
void check_grammar_text(std::string_view ebnf);
/// `printed`: the whole grammar as xgrammar prints it.
void check_grammar_size(const std::string& printed);

/// Weighed positions of a pattern with groups ( ), classes [ ], quoted strings (in a grammar) and {n,m};
/// never more than twice kSchemaPositionsMax.
int64_t count_positions(std::string_view pattern, bool is_regex);

/// The grammar of a JSON schema as xgrammar prints it, with its values put right: the characters of strings
/// of bounded length are those that JSON lets stand in a string, and more than a few of them are counted
/// instead of written out; numbers have exponents below 300, so that they are finite to who reads them.
std::string bound_values(const std::string& printed);

}  // namespace glint
