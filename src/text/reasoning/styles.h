#pragma once

#include "text/reading/reader.h"
#include "text/reading/task.h"
#include "text/reasoning/reasoning_parser.h"

namespace pome::text {

// Reads a whole output of a style with an open and a close mark.
Task<void> read_think(Reader& in, ReasoningSink& out, const ReasoningStyle& style, bool inside);

// Reads a whole output of messages on channels. Calls to functions stay as they are, header
// included, for the tool parser.
Task<void> read_harmony(Reader& in, ReasoningSink& out, const ReasoningStyle& style, bool inside);

}  // namespace pome::text
