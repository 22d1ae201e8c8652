#include "protocol/openai/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "protocol/field_table.h"
#include "protocol/openai/fields.h"

namespace pome::protocol::openai {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

// Text parts alone; other types are refused, since they would change the answer.
Result<json::array> read_text_parts(const json::array& parts, const std::string& field) {
  json::array out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", field, i);
    const json::object* part = parts[i].if_object();
    if (part == nullptr) {
      return invalid(
          fmt::format("'{}': expected an object, got {}", where, json_type_name(parts[i])), where);
    }
    const auto type = find_string(*part, "type");
    if (!type) {
      return invalid(fmt::format("'{}.type': expected a string", where), where + ".type");
    }
    if (*type != "text" && *type != "input_text") {
      return invalid(
          fmt::format("'{}.type': expected \"text\", got \"{}\"; this model reads text only", where,
                      printable(std::string_view(*type).substr(0, 32))),
          where + ".type");
    }
    const auto text = find_string(*part, "text");
    if (!text) {
      return invalid(fmt::format("'{}.text': expected a string", where), where + ".text");
    }
    out.push_back(json::object{{"type", "text"}, {"text", *text}});
  }
  return out;
}

Result<json::value> read_content(const json::object& message, std::string_view role,
                                 const std::string& where) {
  const std::string field = where + ".content";
  const json::value* content = find(message, "content");
  if (content == nullptr || content->is_null()) {
    const json::array* calls = find_array(message, "tool_calls");
    if (role == "assistant" && calls != nullptr && !calls->empty()) {
      return json::value(nullptr);
    }
    return invalid(fmt::format("'{}': expected a string or a list of parts, got {}", field,
                               content == nullptr ? "nothing" : "null"),
                   field);
  }
  if (content->is_string()) {
    return *content;
  }
  if (const json::array* parts = content->if_array()) {
    if (parts->empty()) {
      return invalid(fmt::format("'{}': expected at least one part", field), field);
    }
    Result<json::array> text = read_text_parts(*parts, field);
    return text ? Result<json::value>(json::value(std::move(*text))) : text.error();
  }
  return invalid(fmt::format("'{}': expected a string or a list of parts, got {}", field,
                             json_type_name(*content)),
                 field);
}

// What clients send back of an answer may hold null for what it lacks, under names that are no
// fields here; those are dropped, since a template may ask whether a key is defined.
Result<json::object> known_fields(const json::object& message, const std::string& where,
                                  std::vector<std::string>& hints) {
  json::object out;
  for (const auto& [key, value] : message) {
    if (!value.is_null()) {
      out.emplace(key, value);
    }
  }
  Result<std::vector<std::string>> used = check_fields(out, message_fields(), where + ".");
  if (!used) {
    return used.error();
  }
  hints.insert(hints.end(), used->begin(), used->end());
  ObjectReader reader(out, where + ".");
  for (const char* name : {"name", "tool_call_id", "reasoning_content"}) {
    reader.string(name, std::numeric_limits<size_t>::max());
  }
  if (const json::array* calls = reader.array("tool_calls")) {
    for (const json::value& call : *calls) {
      if (!call.is_object()) {
        reader.fail("tool_calls", fmt::format("expected objects, got {}", json_type_name(call)));
      }
    }
  }
  POME_TRY(reader.status());
  return out;
}

Result<json::object> read_message(const json::value& value, size_t index,
                                  std::vector<std::string>& hints) {
  const std::string where = fmt::format("messages[{}]", index);
  const json::object* message = value.if_object();
  if (message == nullptr) {
    return invalid(fmt::format("'{}': expected an object, got {}", where, json_type_name(value)),
                   where);
  }
  const auto role = find_string(*message, "role");
  if (!role || std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    const std::string got =
        role ? fmt::format("\"{}\"", printable(std::string_view(*role).substr(0, 32)))
             : std::string("no string");
    return invalid(
        fmt::format("'{}.role': expected one of {}, got {}", where, fmt::join(kRoles, ", "), got),
        where + ".role");
  }
  Result<json::value> content = read_content(*message, *role, where);
  if (!content) {
    return content.error();
  }
  Result<json::object> out = known_fields(*message, where, hints);
  if (!out) {
    return out.error();
  }
  (*out)["content"] = *content;
  return out;
}

void read_messages(ObjectReader& reader, ChatRequest& request) {
  const json::array* messages = reader.array("messages");
  if (messages == nullptr) {
    reader.fail("messages", "expected a list of messages, got nothing");
    return;
  }
  if (messages->empty() || messages->size() > kMessagesMax) {
    reader.fail("messages",
                fmt::format("expected 1 to {} messages, got {}", kMessagesMax, messages->size()));
    return;
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    Result<json::object> message = read_message((*messages)[i], i, request.hints);
    if (!message) {
      reader.fail(message.error());
      return;
    }
    request.messages.push_back(std::move(*message));
  }
}

void read_template_fields(ObjectReader& reader, ChatRequest& request) {
  if (const json::object* variables = reader.object("chat_template_kwargs")) {
    request.template_variables = *variables;
  }
  if (const auto effort = reader.string("reasoning_effort", kNameBytesMax)) {
    request.template_variables.emplace("reasoning_effort", *effort);
  }
  request.continue_final_message = reader.boolean("continue_final_message").value_or(false);
  const auto add_prompt = reader.boolean("add_generation_prompt");
  if (request.continue_final_message) {
    if (add_prompt.value_or(false)) {
      reader.fail("continue_final_message", "cannot stand together with add_generation_prompt");
    }
    request.add_generation_prompt = false;
    if (request.messages.empty() ||
        find_string(request.messages.back().as_object(), "role") != "assistant") {
      reader.fail("continue_final_message", "expected the last message to be the assistant's");
    }
  } else {
    request.add_generation_prompt = add_prompt.value_or(true);
  }
}

}  // namespace

StreamOptions read_stream_options(ObjectReader& reader, bool stream) {
  StreamOptions options;
  const json::object* object = reader.object("stream_options");
  if (object == nullptr) {
    return options;
  }
  if (!stream) {
    reader.fail("stream_options", "needs \"stream\": true");
    return options;
  }
  for (const auto& [key, value] : *object) {
    if (key != "include_usage" && key != "continuous_usage_stats" && key != "include_obfuscation") {
      reader.fail("stream_options",
                  fmt::format("unknown key '{}'", printable(std::string_view(key).substr(0, 64))));
      return options;
    }
  }
  ObjectReader inner(*object, "stream_options.");
  options.include_usage = inner.boolean("include_usage").value_or(false);
  options.continuous_usage_stats = inner.boolean("continuous_usage_stats").value_or(false);
  if (const Status status = inner.status(); !status) {
    reader.fail(status.error());
  }
  return options;
}

Result<ChatRequest> parse_chat_request(const json::value& body, const sampling::Params& defaults) {
  ChatRequest request;
  const Result<const json::object*> object = request_object(body, chat_fields(), request.hints);
  if (!object) {
    return object.error();
  }
  request.generation.sampling = defaults;

  ObjectReader reader(**object);
  request.model = reader.string("model", kNameBytesMax).value_or("");
  read_messages(reader, request);
  read_template_fields(reader, request);
  request.tools = read_tool_fields(reader);
  request.separate_reasoning = reader.boolean("separate_reasoning").value_or(true);
  request.stream_reasoning = reader.boolean("stream_reasoning").value_or(true);
  request.stream = reader.boolean("stream").value_or(false);
  request.stream_options = read_stream_options(reader, request.stream);
  read_generation_fields(reader, {}, request.generation);
  const auto older = read_token_limit(reader, "max_tokens");
  const auto newer = read_token_limit(reader, "max_completion_tokens");
  request.generation.max_tokens = newer ? newer : older;
  read_chat_logprobs(reader, request.generation);
  request.rid = reader.string("rid", kNameBytesMax).value_or("");
  POME_TRY(reader.status());
  return request;
}

}  // namespace pome::protocol::openai
