#include "protocol/openai/tools.h"

#include <fmt/format.h>

#include <cctype>

#include "protocol/field_table.h"

namespace pome::protocol::openai {
namespace {

// What every dialect can write as a name, and what cannot be mistaken for one of its marks.
bool is_tool_name(std::string_view name) {
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) == 0 && byte < 0x80 &&
        std::string_view("_-.:/").find(c) == std::string_view::npos) {
      return false;
    }
  }
  return !name.empty() && name.size() <= kToolNameBytesMax;
}

Status check_function(const json::object& function, const std::string& where) {
  ObjectReader reader(function, where + ".");
  const auto name = reader.string("name", kToolNameBytesMax);
  if (reader.status().ok() && (!name || !is_tool_name(*name))) {
    reader.fail("name", fmt::format("expected 1 to {} letters, digits and any of _-.:/",
                                    kToolNameBytesMax));
  }
  reader.string("description", std::string::npos);
  reader.object("parameters");
  if (reader.boolean("strict").value_or(false)) {
    reader.fail("strict",
                "not available yet: arguments are valid JSON, typed by the schema, but nothing "
                "forces them to match it; leave it out or say false");
  }
  return reader.status();
}

Status check_tool(const json::value& value, const std::string& where) {
  const json::object* tool = value.if_object();
  if (tool == nullptr) {
    return invalid(fmt::format("'{}': expected an object, got {}", where, json_type_name(value)),
                   where);
  }
  if (const auto type = find_string(*tool, "type"); type != "function") {
    const std::string got =
        type ? fmt::format("\"{}\"", printable(std::string_view(*type).substr(0, 32)))
             : std::string("no string");
    return invalid(fmt::format("'{}.type': expected \"function\", got {}", where, got),
                   where + ".type");
  }
  const json::value* function = find(*tool, "function");
  if (function == nullptr || !function->is_object()) {
    return invalid(fmt::format("'{}.function': expected an object", where), where + ".function");
  }
  return check_function(function->get_object(), where + ".function");
}

enum class Choice { open, none };

Choice read_choice(ObjectReader& reader, bool has_tools) {
  const json::value* choice = reader.value("tool_choice");
  if (choice == nullptr) {
    return Choice::open;
  }
  if (choice->is_string() && choice->get_string() == "none") {
    return Choice::none;
  }
  if (choice->is_string() && choice->get_string() == "auto") {
    return Choice::open;
  }
  if (!has_tools) {
    reader.fail("tool_choice", "needs `tools`");
  } else if (choice->is_object() || (choice->is_string() && choice->get_string() == "required")) {
    reader.fail("tool_choice",
                "a call cannot be forced yet (that needs constrained output): \"auto\" and "
                "\"none\" are available");
  } else {
    reader.fail("tool_choice", "expected \"auto\" or \"none\"");
  }
  return Choice::none;
}

}  // namespace

json::array read_tools(ObjectReader& reader) {
  const json::array* tools = reader.array("tools");
  if (tools == nullptr) {
    return {};
  }
  if (tools->size() > kToolsMax) {
    reader.fail("tools",
                fmt::format("expected at most {} tools, got {}", kToolsMax, tools->size()));
    return {};
  }
  for (size_t i = 0; i < tools->size(); ++i) {
    if (const Status status = check_tool((*tools)[i], fmt::format("tools[{}]", i)); !status) {
      reader.fail(status.error());
      return {};
    }
  }
  return *tools;
}

ToolFields read_tool_fields(ObjectReader& reader) {
  ToolFields fields;
  fields.tools = read_tools(reader);
  fields.parallel_calls = reader.boolean("parallel_tool_calls").value_or(true);
  if (read_choice(reader, !fields.tools.empty()) == Choice::none) {
    fields.tools.clear();
  }
  return fields;
}

}  // namespace pome::protocol::openai
