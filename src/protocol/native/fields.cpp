#include "protocol/native/fields.h"

namespace pome::protocol::native {
namespace {

using enum FieldUse;

constexpr Field kGenerate[] = {
    {"text", honoured, "a prompt or up to 64 prompts"},
    {"input_ids", honoured, "token ids or up to 64 lists of token ids, instead of text"},
    {"sampling_params", honoured, "one object, or one a prompt"},
    {"rid", honoured, "the request's id, or one a prompt"},
    {"stream", honoured,
     "text is cumulative, unless the server was started with "
     "--incremental-streaming-output"},
    {"return_logprob", honoured,
     "triples of log probability, token id and text; this and the next three: or one a prompt"},
    {"top_logprobs_num", honoured, "0 to 20"},
    {"logprob_start_len", honoured,
     "the prompt's tokens from this position on too, the first of them without one; -1: none"},
    {"token_ids_logprob", honoured, "up to 256 token ids, wherever log probabilities are given"},
    {"return_text_in_logprobs", honoured, "default false"},
    {"priority", honoured, "larger runs first under `--schedule-policy priority`"},
    {"cache_salt", honoured, "prefixes are shared only between requests with the same salt"},
    {"extra_key", honoured, "a second `cache_salt`: prefixes are shared where both are the same"},
    {"log_metrics", hint, ""},
    {"no_logs", hint, ""},
    {"background", hint, ""},
    {"conversation_id", hint, ""},
    {"stream_interval", hint, "tokens are sent as they come"},
    {"input_embeds", refused, "send text or input_ids", is_empty},
    {"image_data", refused, "this model reads text only", is_empty},
    {"video_data", refused, "this model reads text only", is_empty},
    {"audio_data", refused, "this model reads text only", is_empty},
    {"modalities", refused, "this model reads text only", is_empty},
    {"lora_path", refused, "adapters are not available yet", is_empty},
    {"session_params", refused, "sessions are not available", is_empty},
    {"custom_logit_processor", refused, "code from a request is never run", is_empty},
    {"return_hidden_states", refused, "hidden states are not available", is_false},
    {"return_prompt_token_ids", refused, "use POST /tokenize", is_false},
};

constexpr Field kSampling[] = {
    {"max_new_tokens", honoured,
     "128 by default; 0 means the prompt alone, -1 what the context leaves"},
    {"min_new_tokens", honoured, "no end or stop token before this many; at most `max_new_tokens`"},
    {"temperature", honoured, "0 to 100; 0 is greedy"},
    {"top_p", honoured, "0 to 1; 0 keeps the best token alone"},
    {"top_k", honoured, "-1 or 0 is the whole vocabulary"},
    {"min_p", honoured, "0 to 1"},
    {"sampling_seed", honoured, "64-bit integer; -1 draws one, as if absent"},
    {"frequency_penalty", honoured, "-2 to 2"},
    {"presence_penalty", honoured, "-2 to 2"},
    {"repetition_penalty", honoured, "above 0, at most 2"},
    {"logit_bias", honoured, "token id to -100 … 100, up to 1024 entries"},
    {"n", honoured, "1 to 16"},
    {"stop", honoured, "a string or up to 16 strings of 1 to 1024 bytes"},
    {"stop_token_ids", honoured, "up to 256 token ids"},
    {"ignore_eos", honoured, "the model's own end tokens do not stop"},
    {"skip_special_tokens", honoured, "default true"},
    {"no_stop_trim", honoured, "the matched stop string stays in the text"},
    {"spaces_between_special_tokens", hint, ""},
    {"stream_interval", hint, "tokens are sent as they come"},
    {"stop_regex", refused, "use stop", is_empty},
    {"json_schema", refused, "constrained output is not available yet", is_empty},
    {"regex", refused, "constrained output is not available yet", is_empty},
    {"ebnf", refused, "constrained output is not available yet", is_empty},
    {"structural_tag", refused, "constrained output is not available yet", is_empty},
    {"custom_params", refused, "code from a request is never run", is_empty},
};

constexpr Field kTokenize[] = {
    {"prompt", honoured, "a string or up to 64 strings; `text` is the same"},
    {"text", honoured, "as `prompt`"},
    {"model", honoured, "as in chats"},
    {"add_special_tokens", honoured, "default true"},
};

constexpr Field kDetokenize[] = {
    {"tokens", honoured, "token ids or up to 64 lists of token ids"},
    {"model", honoured, "as in chats"},
    {"skip_special_tokens", honoured, "default true"},
};

constexpr Field kParseCalls[] = {
    {"text", honoured, "a finished answer"},
    {"tool_call_parser", honoured, "a name as for the flag; default: the served model's"},
    {"tools", honoured, "as in chats: names that may be called without marks, types of arguments"},
};

constexpr Field kSeparateReasoning[] = {
    {"text", honoured, "a finished answer"},
    {"reasoning_parser", honoured, "a name as for the flag; default: the served model's"},
};

constexpr Field kAbort[] = {
    {"rid", honoured, "the id of the request to end"},
    {"abort_all", honoured, "true: every request"},
};

}  // namespace

const FieldTable& generate_fields() {
  static constexpr FieldTable table{"POST /generate", kGenerate};
  return table;
}
const FieldTable& sampling_fields() {
  static constexpr FieldTable table{"sampling_params of POST /generate", kSampling};
  return table;
}
const FieldTable& tokenize_fields() {
  static constexpr FieldTable table{"POST /v1/tokenize", kTokenize};
  return table;
}
const FieldTable& detokenize_fields() {
  static constexpr FieldTable table{"POST /v1/detokenize", kDetokenize};
  return table;
}
const FieldTable& parse_calls_fields() {
  static constexpr FieldTable table{"POST /parse_function_call", kParseCalls};
  return table;
}
const FieldTable& separate_reasoning_fields() {
  static constexpr FieldTable table{"POST /separate_reasoning", kSeparateReasoning};
  return table;
}
const FieldTable& abort_fields() {
  static constexpr FieldTable table{"POST /abort_request", kAbort};
  return table;
}

}  // namespace pome::protocol::native
