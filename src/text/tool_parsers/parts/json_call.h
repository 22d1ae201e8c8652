#pragma once

#include "text/reading/reader.h"
#include "text/reading/task.h"
#include "text/tool_parsers/parts/call_sink.h"

namespace pome::text {

enum class CallFound {
  none,    // no call: nothing was put out, and the reader stands where it began
  whole,   // the reader stands behind it
  broken,  // a call began and was closed; the reader stands where it went wrong
};

// Marked: the dialect's mark stood before it, so any name is a call, as soon as it is known.
// Inferred: it looks like a call; only a declared function with an object of arguments is one.
enum class CallTrust { marked, inferred };

// {"name": …, "arguments": {…}}, keys in any order, "parameters" for "arguments", arguments as a
// string that holds an object, others passed over. The reader stands at what should be the brace.
Task<CallFound> read_json_call(Reader& in, CallSink& out, CallTrust trust);

// What comes next in a list, as read_json_call() reads it.
using ReadCall = Task<CallFound> (*)(Reader& in, CallSink& out, CallTrust trust);

// "call, call, …]" after the bracket. None where the first is none.
Task<CallFound> read_call_list(Reader& in, CallSink& out, CallTrust trust, ReadCall read_call);

// [call, call, …] of marked calls. None where the first is none; the reader then stands at the
// bracket.
Task<CallFound> read_json_calls(Reader& in, CallSink& out);

// The arguments' object of a call that has begun. False: it is none, or broke.
Task<bool> read_arguments(Reader& in, JsonWriter& out);

// A call whose name is known and whose arguments come next as an object: begins and ends it. True:
// whole.
Task<bool> read_named_call(Reader& in, CallSink& out, std::string name, std::string id);

}  // namespace pome::text
