#include "text/grammar/grammar_source.h"

#include <fmt/format.h>

#include "text/grammar/ebnf.h"

namespace pome::text {
namespace {

// The compiler's own keyword for such options; requests may not use it.
constexpr std::string_view kOptions = "x-guidance";

Error unsupported(std::string_view field, std::string_view why) {
  return invalid(fmt::format("'{}': {}", field, why), std::string(field));
}

Status check_bytes(size_t bytes, size_t bytes_max, std::string_view field) {
  if (bytes <= bytes_max) {
    return {};
  }
  return unsupported(field, fmt::format("expected at most {} bytes, got {}", bytes_max, bytes));
}

Result<json::object> with_options(const json::value& schema, std::string_view field,
                                  const JsonSpace& space) {
  if (schema.is_bool() && !schema.get_bool()) {
    return unsupported(field, "the schema false allows no value");
  }
  if (!schema.is_object() && !schema.is_bool()) {
    return unsupported(field,
                       fmt::format("expected a schema, an object, got {}", json_type_name(schema)));
  }
  json::object object = schema.is_object() ? schema.get_object() : json::object();
  if (object.contains(kOptions)) {
    return unsupported(field, fmt::format("the keyword {} is not supported", kOptions));
  }
  object[kOptions] = space.pattern.empty() ? json::object{{"whitespace_flexible", false}}
                                           : json::object{{"whitespace_pattern", space.pattern}};
  return object;
}

// How many backslashes stand before the last byte is odd or even.
bool last_is_escaped(std::string_view regex) {
  size_t slashes = 0;
  while (slashes + 1 < regex.size() && regex[regex.size() - 2 - slashes] == '\\') {
    ++slashes;
  }
  return slashes % 2 == 1;
}

}  // namespace

GrammarSource json_object_source(const JsonSpace& space) {
  return json_schema_source(json::object{{"type", "object"}}, "response_format", space).value();
}

Result<GrammarSource> json_schema_source(const json::value& schema, std::string_view field,
                                         const JsonSpace& space) {
  Result<json::object> object = with_options(schema, field, space);
  if (!object) {
    return object.error();
  }
  GrammarSource source{.kind = GrammarSource::Kind::json_schema, .text = to_string(*object)};
  POME_TRY(check_bytes(source.text.size(), kSchemaBytesMax, field));
  return source;
}

Result<std::string> json_schema_in_lark(const json::value& schema, std::string_view field,
                                        const JsonSpace& space) {
  Result<GrammarSource> source = json_schema_source(schema, field, space);
  if (!source) {
    return source.error();
  }
  return "%json " + source->text;
}

Result<GrammarSource> regex_source(std::string_view regex, std::string_view field) {
  POME_TRY(check_bytes(regex.size(), kGrammarBytesMax, field));
  if (regex.starts_with('^')) {
    regex.remove_prefix(1);
  }
  if (regex.ends_with('$') && !last_is_escaped(regex)) {
    regex.remove_suffix(1);
  }
  if (regex.empty()) {
    return unsupported(field, "expected a regular expression, got an empty one");
  }
  return GrammarSource{.kind = GrammarSource::Kind::regex, .text = std::string(regex)};
}

Result<GrammarSource> ebnf_source(std::string_view text, std::string_view field) {
  POME_TRY(check_bytes(text.size(), kGrammarBytesMax, field));
  if (text.find("::=") == std::string_view::npos) {
    return GrammarSource{.text = std::string(text)};
  }
  Result<std::string> lark = lark_of_ebnf(text);
  if (!lark) {
    return unsupported(field, lark.error().message);
  }
  return GrammarSource{.text = std::move(*lark)};
}

std::string lark_string(std::string_view text) {
  std::string out = to_string(json::value(text));
  for (size_t at = out.find('\x7f'); at != std::string::npos; at = out.find('\x7f', at)) {
    out.replace(at, 1, "\\u007f");
  }
  return out;
}

}  // namespace pome::text
