#include "protocol/native/generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "protocol/errors.h"
#include "server/handlers/answer.h"
#include "server/handlers/handlers.h"

namespace pome::server {
namespace {

namespace native = protocol::native;

struct GenerateWork {
  native::GenerateRequest request;
  std::vector<PromptJob> jobs = {};
};

// The position that the prompt's log probabilities start at has none, so scores begin behind it.
Status set_score_from(PromptJob& job, int32_t start) {
  const auto tokens = static_cast<int64_t>(job.tokens.size());
  if (start >= tokens && tokens > 0) {
    return invalid(fmt::format("'logprob_start_len': expected a position of the prompt's {} "
                               "tokens, got {}",
                               tokens, start),
                   "logprob_start_len");
  }
  if (start >= 0 && start + 1 < tokens) {
    job.fields.score_from = start + 1;
  }
  return {};
}

Result<GenerateWork> read_generate(const ServerContext& context, const Request& http) {
  Result<json::value> body = parse_body(http);
  if (!body) {
    return body.error();
  }
  Result<native::GenerateRequest> request =
      native::parse_generate_request(*body, context.options.sampling_defaults);
  if (!request) {
    return request.error();
  }
  const Result<int32_t> context_tokens = known_context(context);
  if (!context_tokens) {
    return context_tokens.error();
  }
  GenerateWork work{.request = std::move(*request)};
  for (size_t i = 0; i < work.request.prompts.size(); ++i) {
    PromptJob job{.fields = work.request.generations[i],
                  .max_tokens_yields = !work.request.max_tokens_named[i],
                  .rid = work.request.rids.empty() ? random_id() : work.request.rids[i],
                  .group_rid = work.request.group_rid};
    if (const auto* tokens = std::get_if<std::vector<Token>>(&work.request.prompts[i])) {
      job.tokens = *tokens;
    } else {
      Result<std::vector<Token>> tokens_of_text =
          encode_prompt(context.text, std::get<std::string>(work.request.prompts[i]), true,
                        *context_tokens, "text");
      if (!tokens_of_text) {
        return tokens_of_text.error();
      }
      job.tokens = std::move(*tokens_of_text);
    }
    POME_TRY(set_score_from(job, work.request.logprob_starts[i]));
    work.jobs.push_back(std::move(job));
  }
  return work;
}

native::LogprobEntry entry_of(const TokenPiece& piece) {
  return {piece.token, piece.logprob, valid_utf8(piece.bytes)};
}

native::TokenLogprobs logprobs_of(const OutputToken& token) {
  native::TokenLogprobs entry{.chosen = entry_of(token.chosen)};
  for (const TokenPiece& other : token.top) {
    entry.top.push_back(entry_of(other));
  }
  for (const TokenPiece& other : token.requested) {
    entry.requested.push_back(entry_of(other));
  }
  return entry;
}

// What one choice has said so far, as /generate reports it.
class GenerateChoice {
 public:
  GenerateChoice(std::string rid, int32_t index, const protocol::GenerationFields& fields,
                 bool text_in_logprobs) {
    output_.rid = std::move(rid);
    output_.index = index;
    output_.text_in_logprobs = text_in_logprobs;
    output_.lists_top = fields.top_logprobs > 0;
    output_.lists_requested = !fields.logprob_tokens.empty();
    if (fields.top_logprobs >= 0) {
      output_.logprobs.emplace();
    }
  }

  // The prompt's token that its log probabilities start at.
  void start_prompt(Token token, std::string bytes) {
    native::TokenLogprobs entry{.chosen = entry_of({.token = token, .bytes = std::move(bytes)}),
                                .scored = false};
    output_.prompt_logprobs.push_back(std::move(entry));
  }

  void add(const std::string& text, const std::vector<OutputToken>& tokens,
           const std::vector<OutputToken>& prompt_scores, const Delta& last, double seconds) {
    output_.text += text;
    for (const OutputToken& score : prompt_scores) {
      output_.prompt_logprobs.push_back(logprobs_of(score));
    }
    for (const OutputToken& token : tokens) {
      output_.tokens.push_back(token.chosen.token);
      if (output_.logprobs) {
        output_.logprobs->push_back(logprobs_of(token));
      }
    }
    output_.finish_reason = finish_name(last.finish);
    output_.matched_stop = last.matched_stop;
    output_.max_tokens = last.completion_tokens;
    output_.prompt_tokens = last.prompt_tokens;
    output_.cached_tokens = last.cached_tokens;
    output_.completion_tokens = last.completion_tokens;
    output_.latency_s = seconds;
  }

  json::object body() const { return native::generate_body(output_); }

  // An event of a stream. A prompt's log probabilities may be long: they stand in the first and,
  // where events are cumulative, again in the last.
  json::object event() {
    output_.says_prompt_logprobs = !begun_ || !output_.finish_reason.empty();
    begun_ = true;
    return body();
  }

  // For --incremental-streaming-output: the next body holds only what is added from now on.
  void forget_said() {
    output_.prompt_logprobs.clear();
    output_.text.clear();
    output_.tokens.clear();
    if (output_.logprobs) {
      output_.logprobs->clear();
    }
  }

 private:
  native::GenerateOutput output_;
  bool begun_ = false;
};

std::vector<GenerateChoice> choices_of(const GenerateWork& work, const text::Tokenizer& tokenizer) {
  std::vector<GenerateChoice> choices;
  for (size_t i = 0; i < work.jobs.size(); ++i) {
    const PromptJob& job = work.jobs[i];
    for (int32_t k = 0; k < job.fields.choices; ++k) {
      GenerateChoice& choice = choices.emplace_back(
          job.fields.choices == 1 ? job.rid : fmt::format("{}_{}", job.rid, k),
          static_cast<int32_t>(choices.size()), job.fields, work.request.text_in_logprobs);
      const int32_t start = work.request.logprob_starts[i];
      if (start >= 0 && static_cast<size_t>(start) < job.tokens.size()) {
        const Token token = job.tokens[static_cast<size_t>(start)];
        choice.start_prompt(token, tokenizer.piece_bytes(token).bytes);
      }
    }
  }
  return choices;
}

// The whole answer, of a list or of one prompt.
json::value whole_reply(const GenerateWork& work, std::vector<GenerateChoice>& choices,
                        const std::vector<ChoiceOutput>& outputs, double seconds) {
  json::array bodies;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ChoiceOutput& output = outputs[i];
    choices[i].add(output.text, output.tokens, output.prompt_scores, output.last, seconds);
    bodies.push_back(choices[i].body());
  }
  const bool single = !work.request.list && bodies.size() == 1;
  return single ? std::move(bodies[0]) : json::value(std::move(bodies));
}

}  // namespace

asio::awaitable<void> handle_generate(ServerContext& context, Exchange& exchange) {
  RequestRecord record(context.journal, exchange.request());
  Result<GenerateWork> work =
      co_await context.prompts.run([&] { return read_generate(context, exchange.request()); });
  if (!work) {
    co_await refuse(context, exchange, record, work.error());
    co_return;
  }
  log_hints(exchange.request(), work->request.hints);
  if (exchange.client_gone()) {
    co_return;
  }
  std::vector<GenerateChoice> choices = choices_of(*work, context.text.tokenizer);
  const bool by_ids = !work->request.prompts.empty() && work->request.prompts[0].index() == 1;
  auto generation = start_generation(context, exchange, record, work->jobs,
                                     {.prompt = by_ids ? "input_ids" : "text",
                                      .limit = "sampling_params.max_new_tokens",
                                      .least = "sampling_params.min_new_tokens",
                                      .scores = "logprob_start_len",
                                      .requested = "token_ids_logprob"},
                                     work->request.stream);
  if (!generation) {
    co_await refuse(context, exchange, record, generation.error());
    co_return;
  }
  if (work->request.stream) {
    const bool incremental = context.options.incremental_streaming_output;
    const auto add = [&](const Delta& delta) -> GenerateChoice& {
      GenerateChoice& choice = choices[static_cast<size_t>(delta.choice)];
      choice.add(delta.text, delta.tokens, delta.prompt_scores, delta, record.seconds());
      return choice;
    };
    const StreamWriter writer{.frames =
                                  [&](const Delta& delta) {
                                    GenerateChoice& choice = add(delta);
                                    std::string event = protocol::sse_event(choice.event());
                                    if (incremental) {
                                      choice.forget_said();
                                    }
                                    return event;
                                  },
                              .tail = [] { return std::string(); },
                              .skip = [&](const Delta& delta) { add(delta); }};
    co_await stream(exchange, std::move(*generation), record, writer);
    co_return;
  }
  Result<std::vector<ChoiceOutput>> outputs = co_await collect(std::move(*generation), record);
  if (!outputs) {
    co_await refuse(context, exchange, record, outputs.error());
    co_return;
  }
  const auto scored = [](const PromptJob& job) { return job.fields.score_from >= 0; };
  const bool has_scores = std::any_of(work->jobs.begin(), work->jobs.end(), scored);
  const double seconds = record.seconds();
  const auto make = [&] { return whole_reply(*work, choices, *outputs, seconds); };
  Reply answer = co_await make_reply(context, has_scores, make);
  co_await exchange.reply(std::move(answer));
}

}  // namespace pome::server
