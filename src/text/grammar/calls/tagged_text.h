#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/grammar_source.h"
#include "text/tokenizer/tokenizer.h"

namespace pome::text {

// Text as a part of a Lark grammar: control tokens that stand in it are these tokens, the rest is
// what it says.
std::string lark_text(const Tokenizer& tokenizer, std::string_view text);

// Free text with parts that follow a grammar: what begins with `mark` goes on as `body`, a part of
// a Lark grammar.
struct TaggedPart {
  std::string mark = {};
  std::string body = {};
};
// A mark is text, or begins with a control token; other marks are refused, naming `field`.
Result<GrammarSource> tagged_text_source(const Tokenizer& tokenizer,
                                         const std::vector<TaggedPart>& parts,
                                         std::string_view field);

// SGLang's {"structures": [{"begin", "schema", "end"}], "triggers": []}: where a trigger is said,
// one of the structures that begin with it follows.
Result<GrammarSource> structural_tag_source(const Tokenizer& tokenizer, const json::object& tag,
                                            std::string_view field, const JsonSpace& space = {});

}  // namespace pome::text
