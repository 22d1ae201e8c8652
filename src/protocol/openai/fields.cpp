#include "protocol/openai/fields.h"

#include <array>

namespace pome::protocol::openai {
namespace {

using enum FieldUse;

bool is_text_format(const json::value& value) {
  const json::object* object = value.if_object();
  return object != nullptr && find_string(*object, "type") == "text";
}
bool is_none_or_auto(const json::value& value) {
  return value.is_string() && (value.get_string() == "none" || value.get_string() == "auto");
}
bool is_text_only(const json::value& value) {
  const json::array* list = value.if_array();
  return list != nullptr && list->size() == 1 && (*list)[0].is_string() &&
         (*list)[0].get_string() == "text";
}
bool is_medium(const json::value& value) {
  return value.is_string() && value.get_string() == "medium";
}

// What the endpoints share. A macro, because the tables are static and each stands in one piece.
#define POME_SHARED_FIELDS                                                                      \
  {"model", honoured,                                                                           \
   "any name, unless `--strict-model-name`; the reply carries the served name"},                \
      {"max_tokens", honoured, "at least 1; -1 means what the context leaves"},                 \
      {"stream", honoured, "server-sent events, ended by `data: [DONE]`"},                      \
      {"stream_options", honoured, "`include_usage`, `continuous_usage_stats`"},                \
      {"n", honoured, "1 to 16 choices"},                                                       \
      {"stop", honoured, "a string or up to 16 strings of 1 to 1024 bytes"},                    \
      {"stop_token_ids", honoured, "up to 256 token ids"},                                      \
      {"temperature", honoured, "0 to 100; 0 is greedy"},                                       \
      {"top_p", honoured, "0 to 1; 0 keeps the best token alone"},                              \
      {"top_k", honoured, "-1 or 0 is the whole vocabulary"}, {"min_p", honoured, "0 to 1"},    \
      {"seed", honoured, "64-bit integer; -1 draws one, as if absent"},                         \
      {"frequency_penalty", honoured, "-2 to 2"}, {"presence_penalty", honoured, "-2 to 2"},    \
      {"repetition_penalty", honoured, "above 0, at most 2"},                                   \
      {"logit_bias", honoured, "token id to -100 … 100, up to 1024 entries"},                   \
      {"min_tokens", honoured, "no end or stop token before this many; at most `max_tokens`"},  \
      {"ignore_eos", honoured, "the model's own end tokens do not stop"},                       \
      {"skip_special_tokens", honoured, "default true"},                                        \
      {"include_stop_str_in_output", honoured, "the matched stop string stays in the text"},    \
      {"no_stop_trim", honoured, "the same under SGLang's name"},                               \
      {"priority", honoured, "larger runs first under `--schedule-policy priority`"},           \
      {"cache_salt", honoured, "prefixes are shared only between requests with the same salt"}, \
      {"extra_key", honoured,                                                                   \
       "a second `cache_salt`: prefixes are shared where both are the same"},                   \
  {                                                                                             \
    "rid", honoured, "the request's id, for `/abort_request`"                                   \
  }

#define POME_SHARED_HINTS                                                                          \
  {"user", hint, ""}, {"metadata", hint, ""}, {"store", hint, "nothing is stored"},                \
      {"service_tier", hint, ""}, {"safety_identifier", hint, ""}, {"prompt_cache_key", hint, ""}, \
      {"prompt_cache_retention", hint, ""}, {"cache_prompt", hint, "prefixes are always shared"},  \
      {"keep_alive", hint, ""}, {"stream_interval", hint, "tokens are sent as they come"},         \
      {"spaces_between_special_tokens", hint, ""}, {"return_cached_tokens_details", hint, ""}, {   \
    "prediction", hint, "speculation never changes the text"                                       \
  }

#define POME_SHARED_REFUSALS                                                                   \
  {"best_of", refused, "ask for `n` choices and choose", is_one},                              \
      {"response_format", refused, "only {\"type\":\"text\"} is", is_text_format},             \
      {"json_schema", refused, "constrained output is not available yet", is_empty},           \
      {"regex", refused, "constrained output is not available yet", is_empty},                 \
      {"ebnf", refused, "constrained output is not available yet", is_empty},                  \
      {"grammar", refused, "constrained output is not available yet", is_empty},               \
      {"structural_tag", refused, "constrained output is not available yet", is_empty},        \
      {"guided_json", refused, "constrained output is not available yet", is_empty},           \
      {"guided_regex", refused, "constrained output is not available yet", is_empty},          \
      {"guided_choice", refused, "constrained output is not available yet", is_empty},         \
      {"guided_grammar", refused, "constrained output is not available yet", is_empty},        \
      {"structured_outputs", refused, "constrained output is not available yet", is_empty},    \
      {"stop_regex", refused, "use `stop`", is_empty},                                         \
      {"lora_path", refused, "adapters are not available yet", is_empty},                      \
      {"session_params", refused, "sessions are not available", is_empty},                     \
      {"custom_logit_processor", refused, "code from a request is never run", is_empty},       \
      {"custom_params", refused, "code from a request is never run", is_empty},                \
      {"logits_processors", refused, "code from a request is never run", is_empty},            \
      {"return_hidden_states", refused, "hidden states are not available", is_false},          \
      {"return_token_ids", refused, "use POST /generate", is_false},                           \
      {"prompt_logprobs", refused, "POST /v1/completions with echo and logprobs", is_false},   \
      {"truncate_prompt_tokens", refused, "shorten the prompt before sending", is_minus_one},  \
      {"use_beam_search", refused, "beams are not available", is_false},                       \
      {"length_penalty", refused, "beams are not available", is_one},                          \
      {"early_stopping", refused, "beams are not available", is_false},                        \
      {"typical_p", refused, "use top_p or min_p", is_one},                                    \
      {"tfs_z", refused, "use top_p or min_p", is_one},                                        \
      {"mirostat", refused, "use top_p or min_p", is_zero},                                    \
      {"xtc_probability", refused, "use top_p or min_p", is_zero},                             \
      {"dry_multiplier", refused, "use repetition_penalty", is_zero},                          \
      {"repetition_context_size", refused, "penalties see the whole request", is_minus_one}, { \
    "repeat_penalty", refused, "the name here is repetition_penalty", is_one                   \
  }

constexpr Field kChat[] = {
    {"messages", honoured,
     "1 to 4096 messages; roles system, developer (as system), user, assistant, tool"},
    {"max_completion_tokens", honoured, "the newer name of max_tokens; it wins"},
    POME_SHARED_FIELDS,
    {"logprobs", honoured, "true: one entry a token, from the raw logits"},
    {"top_logprobs", honoured, "0 to 20; needs `logprobs`"},
    {"add_generation_prompt", honoured, "default true"},
    {"continue_final_message", honoured,
     "the last message is the assistant's beginning and is continued"},
    {"chat_template_kwargs", honoured, "variables for the chat template"},
    {"reasoning_effort", honoured, "a variable for templates that read it"},
    {"separate_reasoning", honoured,
     "default true: thoughts come as `reasoning_content`; false: in the content, with their marks"},
    {"stream_reasoning", honoured, "default true; false: a thought comes whole when it has ended"},
    {"tools", honoured,
     "up to 512 functions; refused where the model has no form of calls, and with `strict`"},
    {"tool_choice", honoured,
     "`auto` or `none`; `required` and a named function are refused: a call cannot be forced yet"},
    {"parallel_tool_calls", honoured, "default true; false: the answer ends with its first call"},
    POME_SHARED_HINTS,
    {"functions", refused, "the older form of `tools`", is_empty},
    {"function_call", refused, "the older form of `tool_choice`", is_none_or_auto},
    {"modalities", refused, "the only output is text", is_text_only},
    {"audio", refused, "the only output is text"},
    {"verbosity", refused, "say it in a message", is_medium},
    {"web_search_options", refused, "there is no web search", is_empty},
    {"documents", refused, "put them into a message", is_empty},
    {"chat_template", refused, "start the server with --chat-template", is_empty},
    {"echo", refused, "the prompt is not repeated in chats", is_false},
    {"moderation", refused, "there is no moderation", is_false},
    POME_SHARED_REFUSALS,
};

constexpr Field kCompletions[] = {
    {"prompt", honoured, "a string, token ids, or up to 64 of either"},
    POME_SHARED_FIELDS,
    {"echo", honoured,
     "the prompt stands before the text; `max_tokens` may then be 0, for the prompt alone"},
    {"logprobs", honoured, "0 to 20; with `echo` the prompt's tokens too"},
    {"add_special_tokens", honoured, "default true: the tokenizer's own BOS and EOS rules"},
    POME_SHARED_HINTS,
    {"suffix", refused, "fill-in-the-middle is not available", is_empty},
    POME_SHARED_REFUSALS,
};

constexpr Field kMessage[] = {
    {"role", honoured, "system, developer, user, assistant or tool"},
    {"content", honoured,
     "a string, or a list of {\"type\":\"text\"} parts; other parts are refused"},
    {"name", honoured, "given to the template"},
    {"tool_calls", honoured, "given to the template (assistant)"},
    {"tool_call_id", honoured, "given to the template (tool)"},
    {"reasoning_content", honoured, "given to the template (assistant)"},
    {"refusal", hint, ""},
    {"annotations", hint, ""},
    {"audio", refused, "the only input is text"},
};

#undef POME_SHARED_FIELDS
#undef POME_SHARED_HINTS
#undef POME_SHARED_REFUSALS

}  // namespace

const FieldTable& chat_fields() {
  static constexpr FieldTable table{"POST /v1/chat/completions", kChat};
  return table;
}

const FieldTable& completion_fields() {
  static constexpr FieldTable table{"POST /v1/completions", kCompletions};
  return table;
}

const FieldTable& message_fields() {
  static constexpr FieldTable table{"messages of POST /v1/chat/completions", kMessage};
  return table;
}

}  // namespace pome::protocol::openai
