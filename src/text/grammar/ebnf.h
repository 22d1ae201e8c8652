#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace pome::text {

// Rules as "name ::= …" (SGLang's EBNF, which is llama.cpp's GBNF) as a Lark grammar. `root` is the
// whole output. A rule stands for itself: nothing is skipped between its parts. Errors name the
// line.
Result<std::string> lark_of_ebnf(std::string_view text);

}  // namespace pome::text
