#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/reading/reader.h"
#include "text/reading/task.h"
#include "text/tool_parsers/parts/call_sink.h"

namespace pome::text {

// What a scan for the next call looks for. The texts outlive it.
struct Marks {
  std::vector<std::string_view> begins = {};  // of two that begin alike the longer stands first
  // What may end a call or message that is not closed yet: the next one belongs to it and is not
  // content.
  std::vector<std::string_view> owed = {};
};

inline constexpr int kNoMark = -1;

// Reads content up to and with the next mark that begins a call; its index, or kNoMark where the
// output ends. Only what may be the beginning of a mark is held back.
Task<int> read_content(Reader& in, CallSink& out, Marks& marks);

// After a call: passes its end mark, with white space before it, or has it owed.
Task<void> pass_end(Reader& in, Marks& marks, std::string_view end);

// `open` was read and no call follows: it is content, and so is what comes after `start`.
void give_back(Reader& in, CallSink& out, std::string_view open, size_t start);

// A function's name as dialects write it: letters, digits, _ - . : and /, at most 256. Empty, and
// no movement, where none stands.
Task<std::string> read_name(Reader& in);

}  // namespace pome::text
