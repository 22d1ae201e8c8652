#include "protocol/ollama/fields.h"

namespace pome::protocol::ollama {
namespace {

using enum FieldUse;

bool is_off(const json::value& value) {
  return is_false(value) || is_empty(value);
}

// What both endpoints share. A macro, because the tables are static and each stands in one piece.
#define POME_SHARED_FIELDS                                                                      \
  {"model", honoured,                                                                           \
   "any name, unless `--strict-model-name`; the reply carries the served name"},                \
      {"stream", honoured, "default true: one JSON object a line"},                             \
      {"think", honoured,                                                                       \
       "`true`, `false`, `low`, `medium`, `high`, `max`, for templates that know it; refused "  \
       "where "                                                                                 \
       "the model does not think aloud"},                                                       \
      {"options", honoured, "see below"},                                                       \
      {"logprobs", honoured, "true: one entry a token, from the raw logits"},                   \
      {"top_logprobs", honoured, "0 to 20; needs `logprobs`"},                                  \
      {"priority", honoured, "larger runs first under `--schedule-policy priority`"},           \
      {"cache_salt", honoured, "prefixes are shared only between requests with the same salt"}, \
      {"extra_key", honoured,                                                                   \
       "a second `cache_salt`: prefixes are shared where both are the same"},                   \
      {"keep_alive", hint, "the model stays"}, {"truncate", hint, "a prompt is never cut"},     \
      {"shift", hint, "an answer ends where the context does"},                                 \
      {"format", refused, "constrained output is not available yet", is_empty}, {               \
    "_debug_render_only", refused, "use POST /v1/tokenize", is_false                            \
  }

constexpr Field kChat[] = {
    {"messages", honoured, "up to 4096 messages; none: the answer says that the model is loaded"},
    {"tools", honoured, "up to 512 functions; refused where the model has no form of calls"},
    POME_SHARED_FIELDS,
};

constexpr Field kGenerate[] = {
    {"prompt", honoured, "a question, or with `raw` a text to go on with; none: as in chats"},
    {"system", honoured, "a system message"},
    {"raw", honoured, "true: the prompt as it stands, without the chat template"},
    {"context", honoured, "what an earlier answer gave: the conversation so far, as token ids"},
    POME_SHARED_FIELDS,
    {"template", refused, "start the server with --chat-template", is_empty},
    {"suffix", refused, "fill-in-the-middle is not available", is_empty},
    {"images", refused, "this model reads text only", is_empty},
    {"width", refused, "the only output is text", is_zero},
    {"height", refused, "the only output is text", is_zero},
    {"steps", refused, "the only output is text", is_zero},
};

constexpr Field kOptions[] = {
    {"num_predict", honoured, "the most tokens; 0 or less: what the context leaves"},
    {"temperature", honoured, "0 to 100; 0 is greedy"},
    {"top_k", honoured, "-1 or 0 is the whole vocabulary"},
    {"top_p", honoured, "0 to 1; 0 keeps the best token alone"},
    {"min_p", honoured, "0 to 1"},
    {"seed", honoured, "64-bit integer; -1 draws one, as if absent"},
    {"stop", honoured, "a string or up to 16 strings of 1 to 1024 bytes"},
    {"repeat_penalty", honoured, "above 0, at most 2"},
    {"presence_penalty", honoured, "-2 to 2"},
    {"frequency_penalty", honoured, "-2 to 2"},
    {"repeat_last_n", honoured,
     "0: no penalties; with a penalty only -1 else, because penalties see the whole request"},
    {"typical_p", refused, "use top_p or min_p", is_one},
    {"tfs_z", refused, "use top_p or min_p", is_one},
    {"mirostat", refused, "use top_p or min_p", is_zero},
    {"mirostat_tau", hint, "of `mirostat`"},
    {"mirostat_eta", hint, "of `mirostat`"},
    {"penalize_newline", refused, "penalties see every token", is_true},
    {"num_ctx", hint, "the server's own context holds: --context-length"},
    {"num_keep", hint, "a prompt is never cut"},
    {"num_batch", hint, ""},
    {"num_gpu", hint, ""},
    {"main_gpu", hint, ""},
    {"num_thread", hint, ""},
    {"numa", hint, ""},
    {"low_vram", hint, ""},
    {"f16_kv", hint, ""},
    {"use_mmap", hint, ""},
    {"use_mlock", hint, ""},
    {"vocab_only", refused, "the model is loaded", is_false},
    {"logits_all", hint, "ask for `logprobs`"},
    {"embedding_only", refused, "this is a language model", is_false},
};

constexpr Field kMessage[] = {
    {"role", honoured, "system, user, assistant or tool"},
    {"content", honoured, "a string"},
    {"thinking", honoured, "given to the template (assistant)"},
    {"tool_calls", honoured, "given to the template (assistant); `arguments` is an object"},
    {"tool_name", honoured, "given to the template (tool)"},
    {"tool_call_id", honoured, "given to the template (tool); drawn where calls have no id"},
    {"images", refused, "this model reads text only", is_empty},
};

constexpr Field kShow[] = {
    {"model", honoured, "as in chats"},
    {"name", honoured, "the older name of `model`"},
    {"verbose", hint, "everything is said"},
    {"system", refused, "ask /api/chat", is_off},
    {"template", refused, "start the server with --chat-template", is_off},
    {"options", refused, "ask /api/chat", is_off},
};

#undef POME_SHARED_FIELDS

}  // namespace

const FieldTable& chat_fields() {
  static constexpr FieldTable table{"POST /api/chat", kChat, UnknownFields::hints};
  return table;
}
const FieldTable& generate_fields() {
  static constexpr FieldTable table{"POST /api/generate", kGenerate, UnknownFields::hints};
  return table;
}
const FieldTable& option_fields() {
  static constexpr FieldTable table{"options of POST /api/chat and /api/generate", kOptions,
                                    UnknownFields::hints};
  return table;
}
const FieldTable& message_fields() {
  static constexpr FieldTable table{"messages of POST /api/chat", kMessage, UnknownFields::hints};
  return table;
}
const FieldTable& show_fields() {
  static constexpr FieldTable table{"POST /api/show", kShow, UnknownFields::hints};
  return table;
}

}  // namespace pome::protocol::ollama
