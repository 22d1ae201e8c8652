#include "text/tool_parsers/values/declared_tools.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/json.h"
#include "text/tool_parsers/values/literal.h"

namespace pome::text {
namespace {

constexpr int kSchemaDepthMax = 16;
constexpr int kSchemasMax = 100'000;  // looked at for one request

void allow(JsonTypes& types, std::string_view name) {
  types.null |= name == "null";
  types.boolean |= name == "boolean";
  types.integer |= name == "integer";
  types.number |= name == "number";
  types.string |= name == "string";
  types.array |= name == "array";
  types.object |= name == "object";
}

void allow_type_of(JsonTypes& types, const json::value& value) {
  if (value.is_int64() || value.is_uint64()) {
    types.integer = true;
  } else {
    allow(types, json_type_name(value));
  }
}

JsonTypes both(const JsonTypes& a, const JsonTypes& b) {
  return {.null = a.null || b.null,
          .boolean = a.boolean || b.boolean,
          .integer = a.integer || b.integer,
          .number = a.number || b.number,
          .string = a.string || b.string,
          .array = a.array || b.array,
          .object = a.object || b.object};
}

// "#/$defs/Name" within `root`; nullptr for what is not there.
const json::value* resolve(const json::object& root, std::string_view reference) {
  if (!reference.starts_with("#/")) {
    return nullptr;
  }
  const json::object* at = &root;
  const json::value* found = nullptr;
  reference.remove_prefix(2);
  while (!reference.empty()) {
    const size_t slash = reference.find('/');
    const std::string_view step = reference.substr(0, slash);
    reference.remove_prefix(slash == std::string_view::npos ? reference.size() : slash + 1);
    found = at ? at->if_contains(step) : nullptr;
    if (!found) {
      return nullptr;
    }
    at = found->if_object();
  }
  return found;
}

// `left`: schemas that may still be looked at. References multiply: a schema may name itself many
// times at each level.
JsonTypes types_in(const json::value& value, const json::object& root, int depth, int& left) {
  JsonTypes types;
  const json::object* schema = value.if_object();
  if (!schema || depth > kSchemaDepthMax || --left < 0) {
    return types;
  }
  if (const auto reference = find_string(*schema, "$ref")) {
    const json::value* target = resolve(root, *reference);
    return target ? types_in(*target, root, depth + 1, left) : types;
  }
  if (const json::value* type = schema->if_contains("type")) {
    if (const json::string* name = type->if_string()) {
      allow(types, std::string_view(*name));
    } else if (const json::array* names = type->if_array()) {
      for (const json::value& one : *names) {
        if (const json::string* text = one.if_string()) {
          allow(types, std::string_view(*text));
        }
      }
    }
    return types;
  }
  if (const json::array* values = find_array(*schema, "enum")) {
    for (const json::value& one : *values) {
      allow_type_of(types, one);
    }
    return types;
  }
  if (const json::value* constant = schema->if_contains("const")) {
    allow_type_of(types, *constant);
    return types;
  }
  for (const std::string_view choice : {"anyOf", "oneOf", "allOf"}) {
    const json::array* options = find_array(*schema, choice);
    for (size_t index = 0; options && index < options->size(); ++index) {
      const JsonTypes option = types_in((*options)[index], root, depth + 1, left);
      if (option.any() && choice != "allOf") {
        return {};
      }
      types = both(types, option);
    }
  }
  return types;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
  return out;
}

// "42", and "42.0" too; as JSON wants it.
std::optional<std::string> integer_text(std::string_view text) {
  if (const size_t point = text.find('.'); point != std::string_view::npos) {
    if (text.find_first_not_of('0', point + 1) != std::string_view::npos) {
      return std::nullopt;
    }
    text = text.substr(0, point);
  }
  if (!is_json_number(text) || text.find_first_of("eE") != std::string_view::npos) {
    return std::nullopt;
  }
  return std::string(text);
}

// `text` as the JSON of one of the types, strings aside.
std::optional<std::string> json_as(std::string_view text, const JsonTypes& types) {
  const std::string word = lower(text);
  if (types.null && (word == "null" || word == "none")) {
    return "null";
  }
  if (types.boolean && (word == "true" || word == "false")) {
    return word;
  }
  if (types.integer) {
    if (auto integer = integer_text(text)) {
      return integer;
    }
  }
  if (types.number && is_json_number(text)) {
    return std::string(text);
  }
  if (types.array || types.object) {
    auto json = json_of_literal(text);
    if (json && ((types.array && json->front() == '[') || (types.object && json->front() == '{'))) {
      return json;
    }
  }
  return std::nullopt;
}

constexpr JsonTypes kAllButString = {
    .null = true, .boolean = true, .integer = true, .number = true, .array = true, .object = true};

}  // namespace

DeclaredTools::DeclaredTools(const json::array& tools) {
  int left = kSchemasMax;
  for (const json::value& entry : tools) {
    const json::object* tool = entry.if_object();
    const json::object* function = tool ? find_object(*tool, "function") : nullptr;
    const auto name = function ? find_string(*function, "name") : std::nullopt;
    if (!name) {
      continue;
    }
    std::vector<Parameter>& parameters = functions_[*name];
    const json::object* schema = find_object(*function, "parameters");
    const json::object* properties = schema ? find_object(*schema, "properties") : nullptr;
    if (!properties) {
      continue;
    }
    for (const auto& [key, value] : *properties) {
      parameters.push_back({std::string(key), types_in(value, *schema, 0, left)});
    }
  }
}

const std::vector<DeclaredTools::Parameter>* DeclaredTools::find(std::string_view function) const {
  const auto found = functions_.find(function);
  return found == functions_.end() ? nullptr : &found->second;
}

bool DeclaredTools::has(std::string_view function) const {
  return find(function) != nullptr;
}

JsonTypes DeclaredTools::types_of(std::string_view function, std::string_view parameter) const {
  if (const auto* parameters = find(function)) {
    for (const Parameter& one : *parameters) {
      if (one.name == parameter) {
        return one.types;
      }
    }
  }
  return {};
}

std::vector<std::string> DeclaredTools::parameters_of(std::string_view function) const {
  std::vector<std::string> names;
  if (const auto* parameters = find(function)) {
    for (const Parameter& one : *parameters) {
      names.push_back(one.name);
    }
  }
  return names;
}

TypedValue::TypedValue(JsonWriter& out, JsonTypes types) : out_(out), types_(types) {
  if (types_.only_string()) {
    out_.begin_string();
  }
}

void TypedValue::text(std::string_view piece) {
  if (types_.only_string()) {
    out_.string_text(piece);
  } else {
    held_ += piece;
  }
}

void TypedValue::end() {
  if (types_.only_string()) {
    out_.end_string();
    return;
  }
  if (const auto json = json_as(trimmed(held_), types_.any() ? kAllButString : types_)) {
    out_.scalar(*json);
    return;
  }
  out_.begin_string();
  out_.string_text(held_);
  out_.end_string();
}

}  // namespace pome::text
