#include "text/chat/message_shapes.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

namespace pome::text {
namespace {

constexpr std::array<std::string_view, 3> kReasoningFields = {"reasoning_content", "reasoning",
                                                              "thinking"};

json::value text_part(std::string_view text) {
  return json::object{{"type", "text"}, {"text", text}};
}

bool is_role(const json::value& message, std::string_view role) {
  const json::object* object = message.if_object();
  return object && find_string(*object, "role") == role;
}

// Adjacent text parts become one, so that no control token can be put together from two of them.
Result<json::array> merge_parts(const json::array& parts, std::string_view where,
                                std::string_view separator) {
  json::array out;
  std::optional<std::string> text;
  for (size_t index = 0; index < parts.size(); ++index) {
    const json::object* part = parts[index].if_object();
    const auto type = part ? find_string(*part, "type") : std::nullopt;
    if (!type) {
      return invalid(fmt::format("{}[{}]: expected a part with a type, such as {{\"type\": "
                                 "\"text\", \"text\": …}}, got {}",
                                 where, index, json_type_name(parts[index])),
                     "messages");
    }
    if (*type != "text" && *type != "input_text" && *type != "output_text") {
      return invalid(fmt::format("{}[{}]: this model reads text only, got a part of type \"{}\"",
                                 where, index, *type),
                     "messages");
    }
    const auto piece = find_string(*part, "text");
    if (!piece) {
      return invalid(fmt::format("{}[{}].text: expected a string", where, index), "messages");
    }
    text = text ? *text + std::string(separator) + *piece : *piece;
  }
  if (text) {
    out.push_back(text_part(*text));
  }
  return out;
}

Status shape_content(json::object& message, const TemplateHabits& habits, std::string_view where) {
  json::value* content = message.if_contains("content");
  if (!content) {
    return {};
  }
  if (const json::array* parts = content->if_array()) {
    const bool keep = habits.takes_parts;
    auto merged = merge_parts(*parts, where, keep ? "" : " ");
    if (!merged) {
      return merged.error();
    }
    if (keep) {
      *content = std::move(*merged);
    } else {
      *content = merged->empty() ? json::value("") : merged->front().as_object().at("text");
    }
  } else if (content->is_string()) {
    if (!habits.takes_strings) {
      *content = json::array{text_part(std::string_view(content->get_string()))};
    }
  } else {
    return invalid(fmt::format("{}: expected a string or a list of parts, got {}", where,
                               json_type_name(*content)),
                   "messages");
  }
  return {};
}

// Templates print a call's arguments as an object; on the wire they are a string that holds one.
void shape_tool_calls(json::object& message) {
  json::value* calls = message.if_contains("tool_calls");
  if (!calls || !calls->is_array()) {
    return;
  }
  for (json::value& call : calls->get_array()) {
    json::object* object = call.if_object();
    json::value* function = object ? object->if_contains("function") : nullptr;
    json::object* body = function ? function->if_object() : nullptr;
    json::value* arguments = body ? body->if_contains("arguments") : nullptr;
    if (!arguments || !arguments->is_string()) {
      continue;
    }
    auto parsed = parse_json(std::string_view(arguments->get_string()));
    if (parsed && parsed->is_object()) {
      *arguments = std::move(*parsed);
    }
  }
}

void shape_reasoning(json::object& message) {
  for (const std::string_view field : kReasoningFields) {
    const json::value* found = message.if_contains(field);
    if (!found || !found->is_string()) {
      continue;
    }
    const json::value reasoning = *found;
    message["reasoning_content"] = reasoning;
    if (!message.contains("thinking")) {
      message["thinking"] = reasoning;
    }
    return;
  }
}

Result<json::object> shape_message(const json::value& value, const TemplateHabits& habits,
                                   size_t index) {
  const json::object* source = value.if_object();
  const auto role = source ? find_string(*source, "role") : std::nullopt;
  if (!role || role->empty()) {
    return invalid(fmt::format("messages[{}]: expected an object with a role", index), "messages");
  }
  json::object message;
  for (const auto& [key, field] : *source) {
    if (!field.is_null()) {
      message[key] = field;
    }
  }
  if (*role == "developer" && !habits.knows_developer) {
    message["role"] = "system";
  }
  POME_TRY(shape_content(message, habits, fmt::format("messages[{}].content", index)));
  shape_tool_calls(message);
  shape_reasoning(message);
  return message;
}

std::string content_text(const json::object& message) {
  const json::value* content = message.if_contains("content");
  if (!content) {
    return {};
  }
  if (const json::string* text = content->if_string()) {
    return std::string(text->data(), text->size());
  }
  const json::array* parts = content->if_array();
  return parts && !parts->empty() ? find_string(parts->front().as_object(), "text").value_or("")
                                  : std::string();
}

void put_before(json::object& message, const std::string& text) {
  json::value& content = message["content"];
  const std::string joined = text + "\n\n" + content_text(message);
  if (content.is_array()) {
    content = json::array{text_part(joined)};
  } else {
    content = json::value(joined);
  }
}

}  // namespace

Result<json::array> shape_messages(const json::array& messages, const TemplateHabits& habits) {
  if (messages.empty()) {
    return invalid("messages: expected at least one message", "messages");
  }
  json::array out;
  out.reserve(messages.size());
  for (size_t index = 0; index < messages.size(); ++index) {
    auto message = shape_message(messages[index], habits, index);
    if (!message) {
      return message.error();
    }
    out.push_back(std::move(*message));
  }
  return out;
}

json::array fold_system_messages(const json::array& messages, bool keep_first) {
  json::array out;
  std::string waiting;
  for (size_t index = 0; index < messages.size(); ++index) {
    const json::value& message = messages[index];
    if (is_role(message, "system") && !(keep_first && index == 0)) {
      waiting += (waiting.empty() ? "" : "\n\n") + content_text(message.as_object());
      continue;
    }
    out.push_back(message);
    if (!waiting.empty() && is_role(message, "user")) {
      put_before(out.back().as_object(), waiting);
      waiting.clear();
    }
  }
  if (!waiting.empty()) {
    out.push_back(json::object{{"role", "user"}, {"content", waiting}});
  }
  return out;
}

bool has_late_system_message(const json::array& messages) {
  for (size_t index = 1; index < messages.size(); ++index) {
    if (is_role(messages[index], "system")) {
      return true;
    }
  }
  return false;
}

}  // namespace pome::text
