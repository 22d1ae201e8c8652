#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace pome::text {

// The longest grammar, regular expression or schema.
inline constexpr size_t kGrammarBytesMax = size_t{64} << 10;
inline constexpr size_t kSchemaBytesMax = size_t{256} << 10;
// How deep parentheses of rules may stand in each other.
inline constexpr int kGrammarDepthMax = 28;

// What an output must be, in a form that GrammarCompiler takes.
struct GrammarSource {
  enum class Kind { json_schema, regex, lark };
  Kind kind = Kind::lark;
  std::string text = {};

  bool operator==(const GrammarSource&) const = default;
};

// What may stand between the parts of JSON: one match of a regular expression, or nothing. Unless
// told otherwise at most two spaces, or a line break with its indentation, so that a model which
// likes white space cannot say it for ever. An empty expression allows none.
struct JsonSpace {
  std::string pattern = R"(\x20{1,2}|\r?\n[\x20\t]{0,32})";
};

// Any JSON object.
GrammarSource json_object_source(const JsonSpace& space = {});
// A value that satisfies the schema: an object, or `true` for any value. Nothing stands before and
// after it.
Result<GrammarSource> json_schema_source(const json::value& schema, std::string_view field,
                                         const JsonSpace& space = {});
// The same as a part of a Lark grammar: "%json {…}".
Result<std::string> json_schema_in_lark(const json::value& schema, std::string_view field,
                                        const JsonSpace& space = {});
// The whole output matches. ^ and $ at its ends may stand there and change nothing.
Result<GrammarSource> regex_source(std::string_view regex, std::string_view field);
// Rules as "name ::= …", with the rule `root`, or a Lark grammar with the rule `start`.
Result<GrammarSource> ebnf_source(std::string_view text, std::string_view field);

// A string literal of a Lark grammar.
std::string lark_string(std::string_view text);

}  // namespace pome::text
