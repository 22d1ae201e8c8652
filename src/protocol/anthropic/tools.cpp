#include "protocol/anthropic/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "protocol/anthropic/fields.h"

namespace pome::protocol::anthropic {
namespace {

bool is_tool_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-');
  });
}

Result<json::object> read_tool(const json::value& value, const std::string& where,
                               std::vector<std::string>& hints) {
  const json::object* tool = value.if_object();
  if (tool == nullptr) {
    return invalid(fmt::format("'{}': expected an object, got {}", where, json_type_name(value)),
                   where);
  }
  ObjectReader reader(*tool, where + ".");
  const auto type = reader.string("type", std::string::npos);
  if (type && *type != "custom") {
    reader.fail("type", fmt::format("expected \"custom\", got \"{}\": the vendor's own tools are "
                                    "not here",
                                    printable(std::string_view(*type).substr(0, 32))));
  }
  POME_TRY(reader.status());
  const Result<std::vector<std::string>> used = check_fields(*tool, tool_fields(), where + ".");
  if (!used) {
    return used.error();
  }
  hints.insert(hints.end(), used->begin(), used->end());
  const auto name = reader.string("name", kToolNameBytesMax);
  if (reader.status().ok() && (!name || !is_tool_name(*name))) {
    reader.fail("name",
                fmt::format("expected 1 to {} letters, digits and any of _-", kToolNameBytesMax));
  }
  const auto description = reader.string("description", std::string::npos);
  const json::object* schema = reader.object("input_schema");
  if (reader.status().ok() && schema == nullptr) {
    reader.fail("input_schema", "expected an object, got nothing");
  }
  POME_TRY(reader.status());
  json::object function{{"name", *name}};
  if (description) {
    function["description"] = *description;
  }
  function["parameters"] = *schema;
  return json::object{{"type", "function"}, {"function", std::move(function)}};
}

json::array read_tools(ObjectReader& reader, std::vector<std::string>& hints) {
  json::array out;
  const json::array* tools = reader.array("tools");
  if (tools == nullptr) {
    return out;
  }
  if (tools->size() > kToolsMax) {
    reader.fail("tools",
                fmt::format("expected at most {} tools, got {}", kToolsMax, tools->size()));
    return out;
  }
  for (size_t i = 0; i < tools->size(); ++i) {
    Result<json::object> tool = read_tool((*tools)[i], fmt::format("tools[{}]", i), hints);
    if (!tool) {
      reader.fail(tool.error());
      return out;
    }
    out.push_back(std::move(*tool));
  }
  return out;
}

void read_choice(ObjectReader& reader, ToolFields& fields) {
  const json::object* choice = reader.object("tool_choice");
  if (choice == nullptr) {
    return;
  }
  ObjectReader inner(*choice, "tool_choice.");
  for (const auto& [key, value] : *choice) {
    if (key != "type" && key != "name" && key != "disable_parallel_tool_use") {
      inner.fail(printable(std::string_view(key).substr(0, 64)), "unknown field");
    }
  }
  const std::string type = inner.string("type", 64).value_or("");
  fields.parallel_calls = !inner.boolean("disable_parallel_tool_use").value_or(false);
  if (type == "none") {
    fields.tools.clear();
  } else if (type == "any" || type == "tool") {
    inner.fail("type",
               "a call cannot be forced yet (that needs constrained output): \"auto\" and \"none\" "
               "are available");
  } else if (type != "auto") {
    inner.fail("type", "expected \"auto\" or \"none\"");
  }
  if (const Status status = inner.status(); !status) {
    reader.fail(status.error());
  }
}

}  // namespace

ToolFields read_tool_fields(ObjectReader& reader, std::vector<std::string>& hints) {
  ToolFields fields;
  fields.tools = read_tools(reader, hints);
  read_choice(reader, fields);
  return fields;
}

}  // namespace pome::protocol::anthropic
