#include "protocol/field_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace pome::protocol {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

Error unknown_field(std::string_view name, const FieldTable& table, std::string_view prefix) {
  // A hostile key may be megabytes long; neither the distance nor the message needs all of it.
  constexpr size_t kNameShown = 64;
  const std::string shown = printable(name.substr(0, kNameShown));
  const std::string field = fmt::format("{}{}", prefix, shown);
  std::string_view nearest;
  size_t distance = 3;
  if (name.size() <= kNameShown) {
    for (const Field& known : table.fields) {
      const size_t d = edit_distance(name, known.name);
      if (d < distance) {
        distance = d;
        nearest = known.name;
      }
    }
  }
  if (nearest.empty()) {
    return invalid(fmt::format("unknown field '{}' in {}", field, table.endpoint), field);
  }
  return invalid(fmt::format("unknown field '{}' in {}: did you mean '{}{}'?", field,
                             table.endpoint, prefix, nearest),
                 field);
}

std::string_view use_name(FieldUse use) {
  switch (use) {
    case FieldUse::honoured:
      return "honoured";
    case FieldUse::hint:
      return "harmless hint";
    case FieldUse::refused:
      return "refused (400)";
  }
  return "";
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      c = '?';
    }
  }
  return out;
}

Result<std::vector<std::string>> check_fields(const json::object& object, const FieldTable& table,
                                              std::string_view prefix) {
  std::vector<std::string> hints;
  for (const auto& [key, value] : object) {
    const std::string_view name(key.data(), key.size());
    const auto field = std::find_if(table.fields.begin(), table.fields.end(),
                                    [&](const Field& f) { return f.name == name; });
    if (field == table.fields.end() && table.unknown == UnknownFields::hints) {
      constexpr size_t kNameShown = 64;
      hints.push_back(fmt::format("{}{}", prefix, printable(name.substr(0, kNameShown))));
      continue;
    }
    if (field == table.fields.end()) {
      return unknown_field(name, table, prefix);
    }
    if (field->use == FieldUse::hint) {
      hints.push_back(fmt::format("{}{}", prefix, name));
    } else if (field->use == FieldUse::refused && !value.is_null() &&
               !(field->asks_for_nothing != nullptr && field->asks_for_nothing(value))) {
      const std::string full = fmt::format("{}{}", prefix, name);
      return invalid(fmt::format("'{}' is not supported: {}", full, field->note), full);
    }
  }
  return hints;
}

Result<const json::object*> request_object(const json::value& body, const FieldTable& table,
                                           std::vector<std::string>& hints) {
  const json::object* object = body.if_object();
  if (object == nullptr) {
    return invalid(fmt::format("expected a JSON object, got {}", json_type_name(body)));
  }
  Result<std::vector<std::string>> found = check_fields(*object, table);
  if (!found) {
    return found.error();
  }
  hints.insert(hints.end(), found->begin(), found->end());
  return object;
}

std::string fields_markdown(const FieldTable& table) {
  std::string out = fmt::format("## {}\n\n| field | use | note |\n|---|---|---|\n", table.endpoint);
  for (const Field& field : table.fields) {
    out += fmt::format("| `{}` | {} | {} |\n", field.name, use_name(field.use), field.note);
  }
  if (table.unknown == UnknownFields::hints) {
    out += fmt::format("| any other | {} | as in the original |\n", use_name(FieldUse::hint));
  }
  return out;
}

bool is_false(const json::value& value) {
  return value.is_bool() && !value.get_bool();
}
bool is_true(const json::value& value) {
  return value.is_bool() && value.get_bool();
}
bool is_zero(const json::value& value) {
  return as_double(value) == 0.0;
}
bool is_one(const json::value& value) {
  return as_double(value) == 1.0;
}
bool is_minus_one(const json::value& value) {
  return as_double(value) == -1.0;
}
bool is_empty(const json::value& value) {
  return (value.is_string() && value.get_string().empty()) ||
         (value.is_array() && value.get_array().empty()) ||
         (value.is_object() && value.get_object().empty());
}

}  // namespace pome::protocol
