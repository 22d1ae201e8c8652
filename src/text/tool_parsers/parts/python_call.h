#pragma once

#include "text/reading/reader.h"
#include "text/reading/task.h"
#include "text/tool_parsers/parts/json_call.h"

namespace pome::text {

// name(key=value, value, …) with Python's literals. Values without a key are the schema's
// parameters in order. The reader stands at the name. An inferred call is one of a declared
// function; any begins where its first argument does.
Task<CallFound> read_python_call(Reader& in, CallSink& out, CallTrust trust);

}  // namespace pome::text
