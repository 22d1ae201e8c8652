#include "protocol/anthropic/fields.h"

namespace pome::protocol::anthropic {
namespace {

using enum FieldUse;

bool is_direct(const json::value& value) {
  const json::array* list = value.if_array();
  return list != nullptr && list->size() == 1 && (*list)[0].is_string() &&
         (*list)[0].get_string() == "direct";
}

// What decides the prompt. A macro, because the tables are static and each stands in one piece.
#define POME_PROMPT_FIELDS                                                                         \
  {"model", honoured,                                                                              \
   "any name, unless `--strict-model-name`; the reply carries the served name"},                   \
      {"messages", honoured,                                                                       \
       "1 to 4096 messages of `user` and `assistant`; a last one of the "                          \
       "assistant is continued"},                                                                  \
      {"system", honoured, "a string or a list of text blocks"},                                   \
      {"tools", honoured,                                                                          \
       "up to 512 tools with an `input_schema`; refused where the model has no form of calls"},    \
      {"tool_choice", honoured,                                                                    \
       "`auto` or `none`, with `disable_parallel_tool_use`; `any` and `tool` are refused: a call " \
       "cannot be forced yet"},                                                                    \
      {"thinking", honoured,                                                                       \
       "`enabled`, `adaptive` or `disabled` (default), for templates that know it; `display`; "    \
       "`budget_tokens` is a hint"},                                                               \
      {"output_config", honoured,                                                                  \
       "`effort`, for templates that read it; `format` is refused: "                               \
       "constrained output is not available yet"},                                                 \
      {"context_management", honoured,                                                             \
       "`clear_thinking_20251015` is a hint: the chat template decides; other edits are refused"}, \
      {"cache_control", hint, "prefixes are always shared"}, {                                     \
    "mcp_servers", refused, "the server calls nobody", is_empty                                    \
  }

constexpr Field kMessages[] = {
    POME_PROMPT_FIELDS,
    {"max_tokens", honoured,
     "what the context leaves may be less; 0 computes the prompt alone, for the prefix cache"},
    {"stream", honoured, "server-sent events, ended by `message_stop`"},
    {"stop_sequences", honoured, "up to 16 strings of 1 to 1024 bytes"},
    {"temperature", honoured, "0 to 100; 0 is greedy"},
    {"top_p", honoured, "0 to 1; 0 keeps the best token alone"},
    {"top_k", honoured, "-1 or 0 is the whole vocabulary"},
    {"priority", honoured, "larger runs first under `--schedule-policy priority`"},
    {"cache_salt", honoured, "prefixes are shared only between requests with the same salt"},
    {"extra_key", honoured, "a second `cache_salt`: prefixes are shared where both are the same"},
    {"rid", honoured, "the request's id, for `/abort_request`"},
    {"metadata", hint, ""},
    {"service_tier", hint, ""},
    {"inference_geo", hint, ""},
    {"speed", hint, ""},
    {"user_profile_id", hint, ""},
    {"betas", hint, "as the header `anthropic-beta`"},
    {"anthropic_version", hint, "as other vendors send it in the body"},
    {"container", refused, "there is no code execution", is_empty},
    {"output_format", refused, "constrained output is not available yet", is_empty},
};

constexpr Field kCountTokens[] = {
    POME_PROMPT_FIELDS,
    {"betas", hint, "as the header `anthropic-beta`"},
    {"speed", hint, ""},
    {"output_format", refused, "constrained output is not available yet", is_empty},
};

constexpr Field kMessage[] = {
    {"role", honoured, "`user` or `assistant`; `system` for what is said on the way"},
    {"content", honoured, "a string or a list of content blocks"},
};

constexpr Field kBlock[] = {
    {"type", honoured,
     "`text`, `tool_use`, `tool_result`, `thinking`, `redacted_thinking`; others are refused: this "
     "model reads text only"},
    {"text", honoured, "of `text`"},
    {"id", honoured, "of `tool_use`; the model sees it where its template shows it"},
    {"name", honoured, "of `tool_use`"},
    {"input", honoured, "of `tool_use`: an object"},
    {"tool_use_id", honoured, "of `tool_result`: a call that was made before"},
    {"content", honoured, "of `tool_result`: a string or a list of text blocks"},
    {"is_error", honoured, "of `tool_result`: the model reads `Error: ` before it"},
    {"thinking", honoured, "of `thinking`: given to the template"},
    {"signature", hint, "nothing is signed, so nothing is verified"},
    {"data", hint, "of `redacted_thinking`, which nobody here can read"},
    {"cache_control", hint, "prefixes are always shared"},
    {"citations", hint, "there are no documents to cite"},
    {"caller", hint, ""},
};

constexpr Field kTool[] = {
    {"name", honoured, "1 to 128 letters, digits and any of _-"},
    {"description", honoured, ""},
    {"input_schema", honoured, "a JSON schema of an object"},
    {"type", honoured, "`custom` (default); the vendor's own tools are refused"},
    {"cache_control", hint, "prefixes are always shared"},
    {"eager_input_streaming", hint, "arguments are sent as they come"},
    {"strict", refused, "nothing forces arguments to match the schema yet", is_false},
    {"defer_loading", refused, "there is no search for tools", is_false},
    {"allowed_callers", refused, "there is no code execution", is_direct},
    {"input_examples", refused, "put them into the description", is_empty},
};

#undef POME_PROMPT_FIELDS

}  // namespace

const FieldTable& messages_fields() {
  static constexpr FieldTable table{"POST /v1/messages", kMessages};
  return table;
}
const FieldTable& count_tokens_fields() {
  static constexpr FieldTable table{"POST /v1/messages/count_tokens", kCountTokens};
  return table;
}
const FieldTable& message_fields() {
  static constexpr FieldTable table{"messages of POST /v1/messages", kMessage};
  return table;
}
const FieldTable& block_fields() {
  static constexpr FieldTable table{"content blocks of POST /v1/messages", kBlock};
  return table;
}
const FieldTable& tool_fields() {
  static constexpr FieldTable table{"tools of POST /v1/messages", kTool};
  return table;
}

}  // namespace pome::protocol::anthropic
