#include "text/tool_parsers/parts/json_call.h"

#include <optional>
#include <string>

#include "text/tool_parsers/values/literal.h"

namespace pome::text {
namespace {

struct Envelope {
  std::string name = {};
  std::string id = {};
  bool has_arguments = false;
  JsonWriter early = {};  // arguments that came before the name
};

// Whether the call is put out while its object is still being read.
bool is_certain(const Envelope& call, CallTrust trust, const DeclaredTools& tools) {
  return !call.name.empty() && (trust == CallTrust::marked || tools.has(call.name));
}

void begin(CallSink& out, Envelope& call) {
  out.begin_call(call.name, call.id);
  if (call.has_arguments) {
    out.arguments().scalar(call.early.take());
  }
}

Task<bool> read_string_field(Reader& in, std::string& field) {
  std::optional<std::string> text = co_await read_quoted(in);
  if (!text || !field.empty()) {
    co_return false;
  }
  field = std::move(*text);
  co_return true;
}

Task<bool> read_arguments_field(Reader& in, CallSink& out, CallTrust trust, Envelope& call) {
  if (call.has_arguments) {
    co_return false;
  }
  if (trust == CallTrust::inferred && is_certain(call, trust, out.tools())) {
    const int next = co_await in.peek();
    if (next != '{' && next != '"' && next != 'n') {
      co_return false;
    }
    begin(out, call);
  }
  JsonWriter& writer = out.in_call() ? out.arguments() : call.early;
  const bool read = co_await read_arguments(in, writer);
  call.has_arguments = true;
  co_return read;
}

Task<bool> read_field(Reader& in, CallSink& out, CallTrust trust, Envelope& call, std::string key) {
  bool read = false;
  if (key == "name" || key == "tool_name") {
    read = co_await read_string_field(in, call.name);
  } else if (key == "arguments" || key == "parameters") {
    read = co_await read_arguments_field(in, out, trust, call);
  } else if (key == "id") {
    read = co_await read_string_field(in, call.id);
  } else {
    JsonWriter passed_over;
    read = co_await read_literal(in, passed_over, {});
  }
  co_return read;
}

// The fields up to and with the closing brace.
Task<bool> read_fields(Reader& in, CallSink& out, CallTrust trust, Envelope& call) {
  while (true) {
    co_await in.skip_space();
    const bool closed = co_await in.accept("}");
    if (closed) {
      co_return true;
    }
    const std::optional<std::string> key = co_await read_quoted(in);
    if (!key) {
      co_return false;
    }
    co_await in.skip_space();
    const bool colon = co_await in.accept(":");
    if (!colon) {
      co_return false;
    }
    co_await in.skip_space();
    const bool read = co_await read_field(in, out, trust, call, *key);
    if (!read) {
      co_return false;
    }
    co_await in.skip_space();
    const int next = co_await in.peek();
    if (next != ',' && next != '}') {
      co_return false;
    }
    const bool certain = is_certain(call, trust, out.tools());
    if (!out.in_call() && certain && (trust == CallTrust::marked || call.has_arguments)) {
      begin(out, call);
    }
    if (next == ',') {
      in.take();
    }
  }
}

}  // namespace

Task<CallFound> read_json_call(Reader& in, CallSink& out, CallTrust trust) {
  const size_t start = in.position();
  Envelope call;
  const bool opened = co_await in.accept("{");
  bool read = false;
  if (opened) {
    read = co_await read_fields(in, out, trust, call);
  }
  if (!out.in_call()) {
    in.rewind(start);
    co_return CallFound::none;
  }
  out.end_call(read);
  co_return read ? CallFound::whole : CallFound::broken;
}

Task<CallFound> read_call_list(Reader& in, CallSink& out, CallTrust trust, ReadCall read_call) {
  bool any = false;
  while (true) {
    co_await in.skip_space();
    const CallFound found = co_await read_call(in, out, trust);
    if (found == CallFound::broken || (found == CallFound::none && any)) {
      co_return CallFound::broken;
    }
    if (found == CallFound::none) {
      co_return CallFound::none;
    }
    any = true;
    co_await in.skip_space();
    const bool closed = co_await in.accept("]");
    if (closed) {
      co_return CallFound::whole;
    }
    const bool another = co_await in.accept(",");
    if (!another) {
      co_return CallFound::broken;
    }
  }
}

Task<CallFound> read_json_calls(Reader& in, CallSink& out) {
  const size_t start = in.position();
  CallFound found = CallFound::none;
  const bool opened = co_await in.accept("[");
  if (opened) {
    found = co_await read_call_list(in, out, CallTrust::marked, read_json_call);
  }
  if (found == CallFound::none) {
    in.rewind(start);
  }
  co_return found;
}

Task<bool> read_arguments(Reader& in, JsonWriter& out) {
  const size_t start = in.position();
  const int next = co_await in.peek();
  bool read = false;
  if (next == '{') {
    read = co_await read_literal(in, out, {});
    co_return read;
  }
  if (next == '"' || next == '\'') {
    const std::optional<std::string> text = co_await read_quoted(in);
    const std::optional<std::string> json = text ? json_of_literal(*text) : std::nullopt;
    read = json && json->front() == '{';
    if (read) {
      out.scalar(*json);
    }
  } else {
    read = co_await in.accept("null");
    if (read) {
      out.scalar("{}");
    }
  }
  if (!read) {
    in.rewind(start);
  }
  co_return read;
}

Task<bool> read_named_call(Reader& in, CallSink& out, std::string name, std::string id) {
  out.begin_call(name, id);
  co_await in.skip_space();
  const bool read = co_await read_arguments(in, out.arguments());
  out.end_call(read);
  co_return read;
}

}  // namespace pome::text
