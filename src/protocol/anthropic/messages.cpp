#include "protocol/anthropic/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "protocol/anthropic/fields.h"

namespace pome::protocol::anthropic {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kBudgetMin = 1024;  // Anthropic's

void check_keys(ObjectReader& reader, const json::object& object,
                std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object) {
    if (std::find(known.begin(), known.end(), std::string_view(key)) == known.end()) {
      reader.fail(printable(std::string_view(key).substr(0, 64)), "unknown field");
    }
  }
}

void take_error(ObjectReader& reader, const ObjectReader& inner) {
  if (const Status status = inner.status(); !status) {
    reader.fail(status.error());
  }
}

// As in Anthropic's API, a model thinks when it is told to. Templates know the switch under one of
// two names.
void read_thinking(ObjectReader& reader, PromptFields& fields) {
  std::string type = "disabled";
  if (const json::object* thinking = reader.object("thinking")) {
    ObjectReader inner(*thinking, "thinking.");
    check_keys(inner, *thinking, {"type", "budget_tokens", "display"});
    type = inner.string("type", 64).value_or("");
    if (type != "enabled" && type != "disabled" && type != "adaptive") {
      inner.fail("type", "expected \"enabled\", \"adaptive\" or \"disabled\"");
    }
    const auto budget = inner.integer("budget_tokens", {.min = kBudgetMin, .max = kInt32Max});
    if (type == "enabled" && !budget) {
      inner.fail("budget_tokens", "expected an integer, got nothing");
    }
    if (budget) {
      fields.hints.emplace_back("thinking.budget_tokens");
    }
    const std::string display = inner.string("display", 64).value_or("summarized");
    if (display != "summarized" && display != "omitted") {
      inner.fail("display", "expected \"summarized\" or \"omitted\"");
    }
    fields.hides_thinking = display == "omitted";
    take_error(reader, inner);
  }
  for (const char* name : {"enable_thinking", "thinking"}) {
    fields.template_variables[name] = type != "disabled";
  }
}

void read_output_config(ObjectReader& reader, PromptFields& fields) {
  const json::object* config = reader.object("output_config");
  if (config == nullptr) {
    return;
  }
  ObjectReader inner(*config, "output_config.");
  check_keys(inner, *config, {"effort", "format", "task_budget"});
  if (const auto effort = inner.string("effort", 64)) {
    static constexpr std::array<std::string_view, 5> kEfforts = {"low", "medium", "high", "xhigh",
                                                                 "max"};
    const auto found = std::find(kEfforts.begin(), kEfforts.end(), *effort);
    if (found == kEfforts.end()) {
      inner.fail("effort", fmt::format("expected one of {}", fmt::join(kEfforts, ", ")));
    } else {
      // Templates know three.
      const auto level = std::min<size_t>(static_cast<size_t>(found - kEfforts.begin()), 2);
      fields.template_variables["reasoning_effort"] = kEfforts[level];
    }
  }
  if (inner.value("format") != nullptr) {
    inner.fail("format", "constrained output is not available yet");
  }
  if (inner.value("task_budget") != nullptr) {
    fields.hints.emplace_back("output_config.task_budget");
  }
  take_error(reader, inner);
}

// Thoughts of earlier turns are shown or left out by the chat template, as its model was trained;
// whatever else is to be taken out of the conversation would change the answer.
void read_context_management(ObjectReader& reader, PromptFields& fields) {
  const json::object* management = reader.object("context_management");
  if (management == nullptr) {
    return;
  }
  ObjectReader inner(*management, "context_management.");
  check_keys(inner, *management, {"edits"});
  if (const json::array* edits = inner.array("edits")) {
    for (const json::value& edit : *edits) {
      const json::object* object = edit.if_object();
      const std::string type = object == nullptr ? "" : find_string(*object, "type").value_or("");
      if (type != "clear_thinking_20251015") {
        inner.fail("edits", fmt::format("expected clear_thinking_20251015 alone, got \"{}\"; drop "
                                        "what is to be cleared before sending",
                                        printable(std::string_view(type).substr(0, 64))));
      }
    }
    fields.hints.emplace_back("context_management.edits");
  }
  take_error(reader, inner);
}

PromptFields read_prompt_fields(ObjectReader& reader) {
  PromptFields fields;
  if (const auto model = reader.string("model", kNameBytesMax)) {
    fields.model = *model;
  } else {
    reader.fail("model", "expected a string, got nothing");
  }
  Result<Conversation> conversation =
      read_conversation(reader.value("system"), reader.value("messages"), fields.hints);
  if (conversation) {
    fields.conversation = std::move(*conversation);
  } else {
    reader.fail(conversation.error());
  }
  fields.tools = read_tool_fields(reader, fields.hints);
  read_thinking(reader, fields);
  read_output_config(reader, fields);
  read_context_management(reader, fields);
  return fields;
}

void add_hints(std::vector<std::string>& hints, const std::vector<std::string>& more) {
  hints.insert(hints.end(), more.begin(), more.end());
}

}  // namespace

Result<MessagesRequest> parse_messages_request(const json::value& body,
                                               const sampling::Params& defaults) {
  MessagesRequest request;
  std::vector<std::string> hints;
  const Result<const json::object*> object = request_object(body, messages_fields(), hints);
  if (!object) {
    return object.error();
  }
  request.generation.sampling = defaults;

  ObjectReader reader(**object);
  request.prompt = read_prompt_fields(reader);
  add_hints(request.prompt.hints, hints);
  read_generation_fields(reader, {}, request.generation);
  request.generation.stop =
      reader.strings("stop_sequences", {.items_max = kStopsMax, .item_bytes_max = kStopBytesMax});
  if (const auto limit = reader.integer("max_tokens", {.min = 0, .max = kInt32Max})) {
    request.generation.max_tokens = static_cast<int32_t>(*limit);
  } else {
    reader.fail("max_tokens", "expected an integer, got nothing");
  }
  request.stream = reader.boolean("stream").value_or(false);
  request.rid = reader.string("rid", kNameBytesMax).value_or("");
  POME_TRY(reader.status());
  return request;
}

Result<PromptFields> parse_count_request(const json::value& body) {
  std::vector<std::string> hints;
  const Result<const json::object*> object = request_object(body, count_tokens_fields(), hints);
  if (!object) {
    return object.error();
  }
  ObjectReader reader(**object);
  PromptFields fields = read_prompt_fields(reader);
  add_hints(fields.hints, hints);
  POME_TRY(reader.status());
  return fields;
}

Status check_version(std::string_view version) {
  if (version == "2023-06-01") {
    return {};
  }
  return invalid(fmt::format("'anthropic-version': expected 2023-06-01, got \"{}\"",
                             printable(version.substr(0, 32))),
                 "anthropic-version");
}

}  // namespace pome::protocol::anthropic
