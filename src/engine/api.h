#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "sampling/params.h"

// The only engine header that the server may include. Work goes down as a Job through the inbox,
// events come up through the outbox; nothing else crosses.
namespace pome::engine {

// A run of prompt tokens. Later segments also carry media; an atomic one is never cut by a prefill
// chunk.
struct Segment {
  std::vector<Token> tokens = {};
  bool atomic = false;
};

// One continuation to generate. A request with n choices submits n jobs with one `request` and
// different `sequence` ids.
struct Job {
  RequestId request{};
  SequenceId sequence{};
  std::vector<Segment> segments = {};  // at least one token in all
  sampling::Params sampling = {};
  int32_t max_tokens = 128;  // output tokens; 0: the prompt alone, which ends with `length`
  std::vector<Token> stop_tokens =
      {};                            // ends the output; the stop token itself is reported, not text
  bool ignore_eos = false;           // the model's own EOS ids do not stop
  int32_t priority = 0;              // larger runs first under --schedule-policy priority
  std::string cache_namespace = {};  // prefixes are shared only inside one namespace
  int32_t top_logprobs = -1;         // -1: none; 0: the chosen token's only; k: and the k best
  // Wherever log probabilities are given, these tokens' too. Needs top_logprobs >= 0 or score_from.
  std::vector<Token> logprob_tokens = {};
  // The prompt is scored from this position on: each token there gets its log probability given the
  // tokens before it. The token at position 0 has none. -1: no scores. What is scored is computed,
  // so a cached prefix is used up to position score_from - 1 only.
  int32_t score_from = -1;
};

struct TokenLogprob {
  Token token = 0;
  float logprob = 0.0f;
};

struct TokenOutput {
  Token token = 0;
  float logprob = 0.0f;  // log softmax of the raw logits; set when Job::top_logprobs >= 0
  std::vector<TokenLogprob> top = {};        // best first, ties by lower token id
  std::vector<TokenLogprob> requested = {};  // Job::logprob_tokens, in that order
};

enum class FinishReason { none, stop_token, length, cancelled, error };

// What happened to one sequence in one step. The last event of a sequence has a reason other than
// `none`.
struct Event {
  RequestId request{};
  SequenceId sequence{};
  std::vector<TokenOutput> tokens = {};
  // Scores of consecutive prompt positions from `score_position` on, in order over the events of a
  // sequence: max(score_from, 1) first, the last before the first output token or together with it.
  std::vector<TokenOutput> prompt_scores = {};
  int32_t score_position = 0;
  FinishReason finish = FinishReason::none;
  std::optional<Token> matched_stop = {};  // the token that ended it, for stop_token
  Error error = {};                        // for FinishReason::error
  int32_t prompt_tokens = 0;               // set in every event
  int32_t cached_tokens = 0;               // prompt tokens whose work was skipped
  int32_t completion_tokens = 0;           // so far, this event's included
};

struct ModelInfo {
  std::string name = {};  // the served name
  std::string path = {};
  std::string architecture = {};  // the checkpoint's model_type
  std::string format = {};        // "GGUF Q4_1", "safetensors bf16", …
  int32_t vocab_tokens = 0;
  int32_t context_tokens = 0;  // the most that prompt and output may have together
  std::vector<Token> eos_tokens = {};
  std::string backend = {};  // "cpu (AVX3_DL, 2 threads)", "metal", "cuda"
};

// A moment's figures. Cheap: every request and every look at /health asks for them.
struct EngineStats {
  bool ready = false;  // false until a token can be generated
  bool draining = false;
  int32_t running = 0;  // sequences with a row in the last step
  int32_t waiting = 0;
  int32_t sequences_max = 0;                   // that may run and wait together
  int64_t steps = 0;                           // the failed ones too
  int64_t failed_steps = 0;                    // an exception ended their sequences
  std::chrono::milliseconds last_step_age{0};  // 0 while there is no work
  int64_t prompt_tokens_total = 0;             // prompt tokens computed; the cached ones are not
  int64_t cached_tokens_total = 0;             // prompt tokens whose work was skipped
  int64_t generated_tokens_total = 0;
  int64_t finished_total = 0;
  int64_t cancelled_total = 0;       // ended by cancel(), finish() or stop()
  int64_t retracted_total = 0;       // times that a sequence gave its pages back and waited again
  int64_t evicted_tokens_total = 0;  // cached prefixes that made room
  int32_t kv_tokens_max = 0;
  int32_t kv_tokens_used = 0;    // by running sequences
  int32_t kv_tokens_cached = 0;  // that only the prefix cache holds
  double last_generated_tokens_per_s = 0.0;
};

// An item of memory as it was planned and as it is; absent where one of the two is not known.
struct MemoryFigure {
  std::string item = {};
  std::optional<int64_t> planned_bytes = {};
  std::optional<int64_t> measured_bytes = {};
};

struct KernelRuns {
  std::string variant = {};
  int64_t runs = 0;
};

// What takes longer to gather than stats(), for /get_server_info and /metrics.
struct EngineDetails {
  std::vector<MemoryFigure> memory = {};
  std::vector<KernelRuns> kernel_runs = {};  // of the variants that ran
  json::object more = {};                    // what an implementation likes to add
};

// An engine owns its thread. Every method may be called from any thread; wait_events() has one
// consumer.
class Engine {
 public:
  virtual ~Engine() = default;

  // Refused with invalid_argument when it can never run (with the arithmetic in the message),
  // queue_full when too much waits, unavailable when starting or draining.
  virtual Status submit(Job job) = 0;

  // Every sequence of the request ends with FinishReason::cancelled at the next step. Unknown ids
  // are ignored.
  virtual void cancel(RequestId request) = 0;

  // Ends one sequence early without an error (the text side saw its stop string): pages come back,
  // the sequence's last event has FinishReason::cancelled.
  virtual void finish(SequenceId sequence) = 0;

  // Everything that happened since the last call, in order; waits up to `timeout` for the first
  // event.
  virtual std::vector<Event> wait_events(std::chrono::milliseconds timeout) = 0;

  virtual const ModelInfo& model() const = 0;
  virtual EngineStats stats() const = 0;
  virtual EngineDetails details() const = 0;

  // Jobs submitted from now on find no prefix in the cache; what runs or waits keeps its pages.
  // Refused with unavailable when starting or stopped.
  virtual Status flush_cache() = 0;

  // Waits until a token can be generated. The load's error when it failed, `timeout` when it takes
  // longer.
  virtual Status wait_until_ready(std::chrono::milliseconds timeout) = 0;
  // The memory plan for a person to read, one line an item; empty until ready, and where nothing is
  // planned.
  virtual std::vector<std::string> memory_lines() const = 0;

  // New jobs are refused from now on; what runs goes on. stop() ends what is left with `cancelled`
  // and joins.
  virtual void drain() = 0;
  virtual void stop() = 0;
};

}  // namespace pome::engine
