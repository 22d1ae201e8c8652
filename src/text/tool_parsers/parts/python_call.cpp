#include "text/tool_parsers/parts/python_call.h"

#include <set>
#include <string>
#include <vector>

#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/values/literal.h"

namespace pome::text {
namespace {

// "key =", the reader behind it; empty, and no movement, where none stands.
Task<std::string> read_keyword(Reader& in) {
  const size_t start = in.position();
  std::string name = co_await read_name(in);
  co_await in.skip_space();
  const bool equals = co_await in.accept("=");
  if (!equals) {
    in.rewind(start);
    co_return std::string();
  }
  co_await in.skip_space();
  co_return name;
}

void begin(CallSink& out, const std::string& function) {
  if (!out.in_call()) {
    out.begin_call(function);
    out.arguments().begin_object();
  }
}

// A value without a key is held until it is one: a word in prose would be the call's beginning.
Task<bool> read_positional(Reader& in, CallSink& out, const std::string& function,
                           std::set<std::string>& given) {
  const std::vector<std::string> names = out.tools().parameters_of(function);
  if (given.size() >= names.size() || !given.insert(names[given.size()]).second) {
    co_return false;
  }
  const std::string key = names[given.size() - 1];
  JsonWriter value;
  const bool read = co_await read_literal(in, value, {.python = true});
  if (read) {
    begin(out, function);
    out.arguments().key(key);
    out.arguments().scalar(value.take());
  }
  co_return read;
}

Task<bool> read_argument(Reader& in, CallSink& out, const std::string& function,
                         std::set<std::string>& given) {
  const std::string key = co_await read_keyword(in);
  bool read = false;
  if (key.empty()) {
    read = co_await read_positional(in, out, function, given);
  } else if (given.insert(key).second) {
    begin(out, function);
    out.arguments().key(key);
    read = co_await read_literal(in, out.arguments(), {.python = true});
  }
  co_return read;
}

Task<bool> read_argument_list(Reader& in, CallSink& out, const std::string& function) {
  std::set<std::string> given;
  bool may_follow = true;
  while (true) {
    co_await in.skip_space();
    const bool closed = co_await in.accept(")");
    if (closed) {
      if (!out.in_call()) {
        out.begin_call(function);
      }
      co_return true;
    }
    if (!may_follow) {
      co_return false;
    }
    const bool read = co_await read_argument(in, out, function, given);
    if (!read) {
      co_return false;
    }
    co_await in.skip_space();
    may_follow = co_await in.accept(",");
  }
}

}  // namespace

Task<CallFound> read_python_call(Reader& in, CallSink& out, CallTrust trust) {
  const size_t start = in.position();
  const std::string name = co_await read_name(in);
  const bool opened = co_await in.accept("(");
  bool whole = false;
  if (opened && !name.empty() && (trust == CallTrust::marked || out.tools().has(name))) {
    whole = co_await read_argument_list(in, out, name);
  }
  if (!out.in_call()) {
    in.rewind(start);
    co_return CallFound::none;
  }
  out.end_call(whole);
  co_return whole ? CallFound::whole : CallFound::broken;
}

}  // namespace pome::text
