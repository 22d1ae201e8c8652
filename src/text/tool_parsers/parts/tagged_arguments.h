#pragma once

#include <string>
#include <vector>

#include "text/reading/reader.h"
#include "text/reading/task.h"
#include "text/tool_parsers/parts/call_sink.h"

namespace pome::text {

// Where a value between tags ends. Its text may hold the closing tag itself, so `close` counts only
// where one of `followers` or the output's end comes next, white space aside.
struct ValueEnd {
  std::string close;
  std::vector<std::string> followers = {};
  // At the beginning of a line these end a value whose closing tag was forgotten; not passed.
  std::vector<std::string> next_units = {};
  bool own_lines = false;  // a line break after the opening and before the closing tag is theirs
};

// A value's text, typed, up to and with its closing tag. False: the output ended in it.
// `end` outlives the task.
Task<bool> read_text_value(Reader& in, TypedValue& value, const ValueEnd& end);

// <key>name</key><value>text</value>…, by whatever names.
struct ArgumentTags {
  std::string begin;  // of the next call, which ends this one too
  std::string key;
  std::string key_end;
  std::string value;
  std::string value_end;
  std::string end;
};

// The arguments of a call that has begun, up to and with `end`. What is no argument, and a name
// that was given before, is content. False: the output ended in it.
Task<bool> read_tagged_arguments(Reader& in, CallSink& out, std::string function,
                                 ArgumentTags tags);

}  // namespace pome::text
