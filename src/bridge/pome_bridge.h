/* The only border to Rust: tokenizers, chat templates, grammars, downloads. Plain C.
 *
 * Calls return 0, or a code with a message in *error (which may be NULL; free it with
 * pome_buffer_free). Texts are UTF-8 and are read during the call only. Objects are immutable after
 * construction unless their section says otherwise, and may then be used from any number of threads
 * at once. No panic crosses. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { POME_OK = 0, POME_REFUSED = 1, POME_PANICKED = 2 };

typedef struct PomeBuffer {
  uint8_t* data;
  size_t bytes;
  size_t capacity;
} PomeBuffer;

typedef struct PomeTokens {
  int32_t* data;
  size_t count;
  size_t capacity;
} PomeTokens;

typedef struct PomeText {
  const uint8_t* data;
  size_t bytes;
} PomeText;

typedef struct PomeSpan {
  size_t begin; /* bytes */
  size_t end;
} PomeSpan;

void pome_buffer_free(PomeBuffer* buffer);
void pome_tokens_free(PomeTokens* tokens);

/* ---- tokenizers
 * ------------------------------------------------------------------------------------------- */

typedef struct PomeTokenizer PomeTokenizer;

/* GGUF's tokenizer.ggml.* as it stands in the file. Absent ids are -1, absent flags -1. */
typedef struct PomeGgufVocabulary {
  PomeText model; /* "gpt2" or "llama" */
  PomeText pre;   /* the pre-tokenizer's name, for "gpt2" */
  const PomeText* tokens;
  size_t token_count;
  const float* scores; /* token_count, or none */
  size_t score_count;
  const int32_t* types; /* token_count, or none */
  size_t type_count;
  const PomeText* merges; /* "left right" */
  size_t merge_count;
  int32_t bos;
  int32_t eos;
  int32_t unknown;
  int32_t add_bos; /* 0, 1, or -1 for the model's habit */
  int32_t add_eos;
  int32_t add_space_prefix;
} PomeGgufVocabulary;

/* The text of a Hugging Face tokenizer.json. Truncation and padding that it may carry are dropped.
 */
int32_t pome_tokenizer_from_json(PomeText json, PomeTokenizer** out, PomeBuffer* error);
int32_t pome_tokenizer_from_gguf(const PomeGgufVocabulary* vocabulary, PomeTokenizer** out,
                                 PomeBuffer* error);
/* The texts of vocab.json, merges.txt, tokenizer_config.json, whose class says how text is cut, and
 * added_tokens.json, which may be empty. */
int32_t pome_tokenizer_from_bpe_files(PomeText vocab_json, PomeText merges, PomeText config_json,
                                      PomeText added_json, PomeTokenizer** out, PomeBuffer* error);
void pome_tokenizer_free(PomeTokenizer* tokenizer);

/* Ids of `text`. Special tokens that stand in the text become control tokens, except inside the
 * `literal` byte spans (ascending, not overlapping), where they are ordinary text. `add_special`
 * lets the post-processor add BOS and EOS. */
int32_t pome_tokenizer_encode(const PomeTokenizer* tokenizer, PomeText text,
                              const PomeSpan* literal, size_t literal_count, int32_t add_special,
                              PomeTokens* out, PomeBuffer* error);

/* The text of ids; ids outside the vocabulary stand for nothing. `continues`: the ids go on after
 * other text, so no space is dropped at the start. */
int32_t pome_tokenizer_decode(const PomeTokenizer* tokenizer, const int32_t* tokens, size_t count,
                              int32_t skip_special, int32_t continues, PomeBuffer* out,
                              PomeBuffer* error);

/* One past the largest id. */
size_t pome_tokenizer_vocab_tokens(const PomeTokenizer* tokenizer);
/* -1 when there is none. */
int32_t pome_tokenizer_token_id(const PomeTokenizer* tokenizer, PomeText piece);
/* The token as the vocabulary writes it; refused for an id without a token. */
int32_t pome_tokenizer_piece(const PomeTokenizer* tokenizer, int32_t token, PomeBuffer* out,
                             PomeBuffer* error);
int32_t pome_tokenizer_is_special(const PomeTokenizer* tokenizer, int32_t token);
/* All special ids, ascending. */
int32_t pome_tokenizer_special_tokens(const PomeTokenizer* tokenizer, PomeTokens* out,
                                      PomeBuffer* error);

enum { POME_PIECE_TEXT = 0, POME_PIECE_BYTE_FALLBACK = 1, POME_PIECE_NONE = 2 };

/* What the token adds to the decoded bytes, independent of its neighbours, appended to `scratch`
 * (`room` bytes); returns the number of bytes, which may exceed `room`: then nothing was written.
 * *kind says how invalid UTF-8 is shown: one U+FFFD per maximal invalid run (text) or per byte
 * (byte fallback). */
size_t pome_tokenizer_piece_bytes(const PomeTokenizer* tokenizer, int32_t token, uint8_t* scratch,
                                  size_t room, int32_t* kind);
/* How many spaces decoding drops at the very start of the text. */
size_t pome_tokenizer_strip_start(const PomeTokenizer* tokenizer);

/* ---- chat templates
 * --------------------------------------------------------------------------------------- */

typedef struct PomeTemplate PomeTemplate;

/* Parses a Jinja template; an error names its line. `name` stands in messages
 * ("chat_template.jinja"). */
int32_t pome_template_parse(PomeText name, PomeText source, PomeTemplate** out, PomeBuffer* error);
void pome_template_free(PomeTemplate* compiled);

/* Renders with a JSON object as context. Work, depth and output are bounded: a template that does
 * not come to an end is refused. `now_s` is what strftime_now shows: seconds since 1970, already
 * shifted to local time. */
int32_t pome_template_render(const PomeTemplate* compiled, PomeText context_json, int64_t now_s,
                             PomeBuffer* out, PomeBuffer* error);

/* ---- grammars
 * --------------------------------------------------------------------------------------------- */

typedef struct PomeGrammars PomeGrammars; /* compiles for one tokenizer */
typedef struct PomeGrammar PomeGrammar;
typedef struct PomeMatcher PomeMatcher; /* one output; for one thread at a time */

enum { POME_GRAMMAR_JSON_SCHEMA = 0, POME_GRAMMAR_REGEX = 1, POME_GRAMMAR_LARK = 2 };
enum { POME_MATCHER_OPEN = 0, POME_MATCHER_MAY_END = 1, POME_MATCHER_COMPLETE = 2 };

/* Needs nothing of the tokenizer afterwards. `eos` end an output where the grammar lets it end. */
int32_t pome_grammars_new(const PomeTokenizer* tokenizer, const int32_t* eos, size_t eos_count,
                          PomeGrammars** out, PomeBuffer* error);
void pome_grammars_free(PomeGrammars* grammars);

/* Refuses what it cannot hold an output to. Work and memory are bounded, given that the text's
 * length is: the caller bounds that. */
int32_t pome_grammar_compile(const PomeGrammars* grammars, int32_t kind, PomeText text,
                             PomeGrammar** out, PomeBuffer* error);
void pome_grammar_free(PomeGrammar* grammar);

/* At the grammar's beginning; independent of the grammar and of other matchers. */
int32_t pome_matcher_new(const PomeGrammar* grammar, PomeMatcher** out, PomeBuffer* error);
void pome_matcher_free(PomeMatcher* matcher);
/* Bit t % 32 of word t / 32: whether token t may come next. An error where none may, or where
 * finding out takes too much work; the matcher is of no use then. */
int32_t pome_matcher_allowed(PomeMatcher* matcher, uint32_t* words, size_t word_count,
                             PomeBuffer* error);
/* Takes a token; refused, without effect, where it is not allowed. *state (or NULL) is then
 * POME_MATCHER_... */
int32_t pome_matcher_accept(PomeMatcher* matcher, int32_t token, int32_t* state, PomeBuffer* error);
int32_t pome_matcher_state(PomeMatcher* matcher, int32_t* state, PomeBuffer* error);

/* ---- downloads ------------------------------------------------------------------------- */

enum {
  POME_HTTP_STOPPED = 16, /* by a callback */
  POME_HTTP_UNREACHABLE = 17,
  POME_HTTP_TLS = 18,
  POME_HTTP_TIMEOUT = 19,
  POME_HTTP_BROKEN = 20
};

/* One HTTP exchange, blocking. `request_json`: {"method", "url", "headers": {}, "body", "ca_file",
 * "proxy", "redirects", "connect_timeout_s", "read_timeout_s"}; only "url" is needed. `on_head`
 * hears {"status", "url", "headers"} once, `on_body` the bytes as they come; a return other than 0
 * stops. `stop_asked` (or NULL) is asked at least 20 times a second and ends the exchange, also one
 * that waits for a name, a host that does not answer or a silent server. All are called on this
 * thread. Any status is an answer. Authorization is not sent to another host after a redirect. */
int32_t pome_http_exchange(PomeText request_json, int32_t (*on_head)(void* context, PomeText head),
                           int32_t (*on_body)(void* context, PomeText bytes),
                           int32_t (*stop_asked)(void* context), void* context, PomeBuffer* error);

/* Writes the archive's one file that is `entry` or ends in "/entry" to `target`, at most
 * `bytes_max` bytes, its CRC checked. `on_bytes` hears how many were written; a return other than 0
 * stops. */
int32_t pome_zip_extract(PomeText archive, PomeText entry, PomeText target, uint64_t bytes_max,
                         int32_t (*on_bytes)(void* context, uint64_t bytes), void* context,
                         PomeBuffer* error);

#ifdef __cplusplus
}
#endif
