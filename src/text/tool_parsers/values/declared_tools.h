#pragma once

#include <boost/json/fwd.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_parsers/values/json_writer.h"

namespace pome::text {

// JSON types that a schema allows; none of them named means any.
struct JsonTypes {
  bool null = false;
  bool boolean = false;
  bool integer = false;
  bool number = false;
  bool string = false;
  bool array = false;
  bool object = false;

  bool operator==(const JsonTypes&) const = default;
  bool any() const { return *this == JsonTypes{}; }
  bool only_string() const { return *this == JsonTypes{.string = true}; }
};

// The functions that a request declares, and the types of their parameters. Immutable.
class DeclaredTools {
 public:
  DeclaredTools() = default;
  // The request's `tools`: [{"type": "function", "function": {"name", "parameters"}}, …]. Other
  // entries are passed over.
  explicit DeclaredTools(const boost::json::array& tools);

  bool empty() const { return functions_.empty(); }
  bool has(std::string_view function) const;
  // What the schema allows; any where it says nothing. `type`, `anyOf`, `oneOf`, `allOf`, `enum`,
  // `const` and local `$ref`s are read.
  JsonTypes types_of(std::string_view function, std::string_view parameter) const;
  // In the schema's order; empty for an unknown function.
  std::vector<std::string> parameters_of(std::string_view function) const;

 private:
  struct Parameter {
    std::string name;
    JsonTypes types;
  };
  const std::vector<Parameter>* find(std::string_view function) const;

  std::map<std::string, std::vector<Parameter>, std::less<>> functions_;
};

// A value that a dialect writes as bare text, into JSON by its declared types. A string's text is
// written as it comes; other types are held until the end and read as JSON or as a Python literal.
// What no declared type takes becomes a string.
class TypedValue {
 public:
  TypedValue(JsonWriter& out, JsonTypes types);
  void text(std::string_view piece);
  // Not called where the output breaks off: a string then keeps what it has, and another value is
  // dropped with its key.
  void end();

 private:
  JsonWriter& out_;
  JsonTypes types_;
  std::string held_;
};

}  // namespace pome::text
