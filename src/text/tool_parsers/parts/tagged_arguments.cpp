#include "text/tool_parsers/parts/tagged_arguments.h"

#include <optional>
#include <set>

namespace pome::text {
namespace {

constexpr size_t kKeyMax = 256;

Task<bool> comes_next(Reader& in, const std::vector<std::string>& texts) {
  const size_t start = in.position();
  for (const std::string& text : texts) {
    const bool found = co_await in.accept(text);
    in.rewind(start);
    if (found) {
      co_return true;
    }
  }
  co_return false;
}

// The reader stands at "<": whether the value ends here. If it does by its tag, the tag is passed.
Task<bool> ends_here(Reader& in, const ValueEnd& end, bool line_begins) {
  const size_t start = in.position();
  const bool closed = co_await in.accept(end.close);
  if (closed) {
    const size_t after = in.position();
    co_await in.skip_space();
    const int next = co_await in.peek();
    bool plausible = next == Reader::kEnd;
    if (!plausible) {
      plausible = co_await comes_next(in, end.followers);
    }
    in.rewind(plausible ? after : start);
    co_return plausible;
  }
  bool next_unit = false;
  if (line_begins) {
    next_unit = co_await comes_next(in, end.next_units);
  }
  co_return next_unit;
}

Task<std::optional<std::string>> read_key_tag(Reader& in, const ArgumentTags& tags) {
  std::optional<std::string> key = co_await in.line_until(tags.key_end, kKeyMax);
  if (!key) {
    co_return std::nullopt;
  }
  co_await in.skip_space();
  const bool opened = co_await in.accept(tags.value);
  if (!opened) {
    co_return std::nullopt;
  }
  co_return key;
}

ValueEnd value_end(const ArgumentTags& tags) {
  return {.close = tags.value_end, .followers = {tags.key, tags.end, tags.begin}};
}

}  // namespace

Task<bool> read_text_value(Reader& in, TypedValue& value, const ValueEnd& end) {
  bool line_begins = end.own_lines;
  if (end.own_lines) {
    co_await in.accept("\n");
  }
  while (true) {
    const std::string_view arrived = in.arrived();
    const size_t plain =
        std::min(arrived.find_first_of(end.own_lines ? "<\n" : "<"), arrived.size());
    if (plain > 0) {
      value.text(arrived.substr(0, plain));
      in.take(plain);
      line_begins = false;
    }
    const size_t start = in.position();
    int next = co_await in.peek();
    if (next == '\n') {
      in.take();
      line_begins = true;
      next = co_await in.peek();
    }
    if (next == '<') {
      const bool ended = co_await ends_here(in, end, line_begins);
      if (ended) {
        value.end();
        co_return true;
      }
      in.take();
    }
    const bool is_over = in.position() == start;
    value.text(in.since(start));
    line_begins = !in.since(start).empty() && in.since(start).back() == '\n';
    if (is_over && next == Reader::kEnd) {
      co_return false;
    }
  }
}

Task<bool> read_tagged_arguments(Reader& in, CallSink& out, std::string function,
                                 ArgumentTags tags) {
  const ValueEnd end_of_value = value_end(tags);
  std::set<std::string> given;
  out.arguments().begin_object();
  while (true) {
    const size_t space = in.position();
    co_await in.skip_space();
    const size_t start = in.position();
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return false;
    }
    const bool ended = co_await in.accept(tags.end);
    if (ended) {
      co_return true;
    }
    const bool another = co_await in.accept(tags.begin);
    if (another) {
      in.rewind(start);
      co_return true;
    }
    std::optional<std::string> key;
    const bool is_key = co_await in.accept(tags.key);
    if (is_key) {
      key = co_await read_key_tag(in, tags);
    }
    if (!key || given.count(*key) > 0) {
      in.rewind(start);
      in.take();
      out.content(in.since(space));
      continue;
    }
    given.insert(*key);
    out.arguments().key(*key);
    TypedValue value(out.arguments(), out.tools().types_of(function, *key));
    const bool read = co_await read_text_value(in, value, end_of_value);
    if (!read) {
      co_return false;
    }
  }
}

}  // namespace pome::text
