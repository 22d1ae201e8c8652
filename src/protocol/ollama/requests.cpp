#include "protocol/ollama/requests.h"

#include <fmt/format.h>

#include <limits>

#include "protocol/ollama/fields.h"
#include "protocol/ollama/messages.h"
#include "protocol/openai/tools.h"

namespace pome::protocol::ollama {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

// The options that the dialects share, under their common names.
json::object shared_options(const json::object& options) {
  json::object out;
  for (const char* name : {"temperature", "top_k", "top_p", "min_p", "seed", "stop",
                           "presence_penalty", "frequency_penalty"}) {
    if (const json::value* value = find(options, name)) {
      out[name] = *value;
    }
  }
  return out;
}

void read_penalty_window(ObjectReader& reader, sampling::Params& sampling) {
  const auto window = reader.integer("repeat_last_n", {.min = -1, .max = kInt32Max});
  if (!window) {
    return;
  }
  const bool penalized = sampling.repetition_penalty != 1.0f || sampling.presence_penalty != 0.0f ||
                         sampling.frequency_penalty != 0.0f;
  if (*window == 0) {
    sampling.repetition_penalty = 1.0f;
    sampling.presence_penalty = sampling.frequency_penalty = 0.0f;
  } else if (*window > 0 && penalized) {
    reader.fail("repeat_last_n", fmt::format("expected -1, because penalties see the whole "
                                             "request, or 0 for none, got {}",
                                             *window));
  }
}

Status read_options(const json::object& options, Wanted& wanted) {
  Result<std::vector<std::string>> hints = check_fields(options, option_fields(), "options.");
  if (!hints) {
    return hints.error();
  }
  wanted.hints.insert(wanted.hints.end(), hints->begin(), hints->end());
  const json::object shared = shared_options(options);
  ObjectReader named(shared, "options.");
  read_generation_fields(named, {}, wanted.generation);
  POME_TRY(named.status());
  ObjectReader reader(options, "options.");
  const auto limit = reader.integer("num_predict", {.min = -kInt32Max, .max = kInt32Max});
  if (limit && *limit > 0) {
    wanted.generation.max_tokens = static_cast<int32_t>(*limit);
  }
  sampling::Params& sampling = wanted.generation.sampling;
  if (const auto penalty =
          reader.number("repeat_penalty", {.min = 0.0, .max = 2.0, .min_excluded = true})) {
    sampling.repetition_penalty = static_cast<float>(*penalty);
  }
  read_penalty_window(reader, sampling);
  return reader.status();
}

// Templates know the switch under one of two names, and how much under a third. Without the field
// the model thinks as its template has it.
void read_think(ObjectReader& reader, Wanted& wanted) {
  const json::value* think = reader.value("think");
  if (think == nullptr) {
    return;
  }
  if (const json::string* level = think->if_string()) {
    const std::string_view name(level->data(), level->size());
    if (name != "low" && name != "medium" && name != "high" && name != "max") {
      reader.fail("think", "expected true, false, \"low\", \"medium\", \"high\" or \"max\"");
      return;
    }
    wanted.template_variables["reasoning_effort"] = name == "max" ? "high" : name;
  } else if (!think->is_bool()) {
    reader.fail("think", "expected true, false, \"low\", \"medium\", \"high\" or \"max\"");
    return;
  }
  wanted.thinks = !is_false(*think);
  for (const char* name : {"enable_thinking", "thinking"}) {
    wanted.template_variables[name] = wanted.thinks;
  }
}

void read_wanted(ObjectReader& reader, Wanted& wanted) {
  wanted.model = reader.string("model", kNameBytesMax).value_or("");
  if (wanted.model.empty()) {
    reader.fail("model", "expected a name, got nothing");
  }
  wanted.stream = reader.boolean("stream").value_or(true);
  read_think(reader, wanted);
  read_chat_logprobs(reader, wanted.generation);
  read_placement_fields(reader, wanted.generation);
  if (const json::object* options = reader.object("options")) {
    if (const Status status = read_options(*options, wanted); !status) {
      reader.fail(status.error());
    }
  }
}

}  // namespace

Result<ChatRequest> parse_chat_request(const json::value& body, const sampling::Params& defaults) {
  ChatRequest request;
  const Result<const json::object*> object =
      request_object(body, chat_fields(), request.wanted.hints);
  if (!object) {
    return object.error();
  }
  request.wanted.generation.sampling = defaults;
  ObjectReader reader(**object);
  read_wanted(reader, request.wanted);
  if (const json::array* messages = reader.array("messages")) {
    Result<json::array> read = read_messages(*messages, request.wanted.hints);
    if (read) {
      request.messages = std::move(*read);
    } else {
      reader.fail(read.error());
    }
  }
  request.tools = openai::read_tools(reader);
  POME_TRY(reader.status());
  return request;
}

Result<GenerateRequest> parse_generate_request(const json::value& body,
                                               const sampling::Params& defaults) {
  GenerateRequest request;
  const Result<const json::object*> object =
      request_object(body, generate_fields(), request.wanted.hints);
  if (!object) {
    return object.error();
  }
  request.wanted.generation.sampling = defaults;
  ObjectReader reader(**object);
  read_wanted(reader, request.wanted);
  request.prompt = reader.string("prompt", std::string::npos).value_or("");
  request.system = reader.string("system", std::string::npos).value_or("");
  request.raw = reader.boolean("raw").value_or(false);
  request.context = reader.tokens("context", kContextTokensMax);
  if (request.raw && (!request.system.empty() || !request.context.empty())) {
    reader.fail("raw", "cannot stand together with system or context");
  }
  POME_TRY(reader.status());
  return request;
}

Result<std::string> parse_show_request(const json::value& body) {
  std::vector<std::string> hints;
  const Result<const json::object*> object = request_object(body, show_fields(), hints);
  if (!object) {
    return object.error();
  }
  ObjectReader reader(**object);
  const auto model = reader.string("model", kNameBytesMax);
  const auto name = reader.string("name", kNameBytesMax);
  POME_TRY(reader.status());
  const std::string asked = model ? *model : name.value_or("");
  if (asked.empty()) {
    return invalid("'model': expected a name, got nothing", "model");
  }
  return asked;
}

}  // namespace pome::protocol::ollama
