#include "server/handlers/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/log.h"
#include "base/utf8.h"
#include "protocol/errors.h"
#include "protocol/field_table.h"
#include "server/handlers/handlers.h"

namespace pome::server {

namespace {

// Whether at least kPile later deltas of the same choice wait: cumulative events would then grow
// with the square of the answer's length, in bytes and in the network thread's time.
bool is_piled_up(const std::vector<Delta>& deltas, size_t index) {
  constexpr int kPile = 16;
  int later = 0;
  for (size_t i = index + 1; i < deltas.size() && later < kPile; ++i) {
    later += deltas[i].choice == deltas[index].choice ? 1 : 0;
  }
  return later >= kPile;
}

// More answers than may ever run and wait together are refused for good: a later try would not
// help.
Status check_choice_count(const engine::EngineStats& stats, const std::vector<PromptJob>& prompts) {
  int64_t choices = 0;
  for (const PromptJob& prompt : prompts) {
    choices += prompt.fields.choices;
  }
  if (choices <= stats.sequences_max) {
    return {};
  }
  return invalid(fmt::format("'n': {} prompts make {} answers, but {} may run and wait together "
                             "(--max-running-requests, --max-queued-requests)",
                             prompts.size(), choices, stats.sequences_max),
                 "n");
}

// The most log probabilities of prompt tokens that one reply may hold, alternatives included: some
// 25 MB of JSON.
constexpr int64_t kPromptScoresMax = int64_t{1} << 19;

Status check_scores(const std::vector<PromptJob>& prompts, std::string_view field) {
  int64_t scores = 0;
  for (const PromptJob& prompt : prompts) {
    const protocol::GenerationFields& fields = prompt.fields;
    if (fields.score_from >= 0) {
      const auto positions = static_cast<int64_t>(prompt.tokens.size()) - fields.score_from;
      scores += std::max<int64_t>(positions, 0) * fields.choices *
                (1 + std::max(fields.top_logprobs, 0) +
                 static_cast<int64_t>(fields.logprob_tokens.size()));
    }
  }
  if (scores <= kPromptScoresMax) {
    return {};
  }
  return invalid(
      fmt::format("'{}': the prompts would get {} log probabilities, but one reply holds "
                  "{}: ask for fewer alternatives or positions, or send fewer prompts",
                  field, scores, kPromptScoresMax),
      std::string(field));
}

void add_calls(std::vector<CallPiece>& pieces, std::vector<CallPiece>& calls) {
  for (CallPiece& piece : pieces) {
    if (static_cast<size_t>(piece.call) == calls.size()) {
      calls.push_back(std::move(piece));
    } else {
      calls[static_cast<size_t>(piece.call)].arguments += piece.arguments;
    }
  }
}

Error still_loading() {
  return {ErrorCode::unavailable, "the model is still loading", {}};
}

Error shutting_down() {
  return {ErrorCode::unavailable, "the server is shutting down", {}};
}

}  // namespace

asio::awaitable<void> refuse(ServerContext& context, Exchange& exchange, const Error& error) {
  Reply refusal = exchange.refusal(error, context.dispatcher.seconds_until_places(1));
  co_await exchange.reply(std::move(refusal));
}

asio::awaitable<void> refuse(ServerContext& context, Exchange& exchange, RequestRecord& record,
                             const Error& error) {
  record.refuse(error);
  Reply refusal =
      exchange.refusal(error, context.dispatcher.seconds_until_places(record.choice_count()));
  co_await exchange.reply(std::move(refusal));
}

asio::awaitable<void> refuse_for_start(const Front& front, Exchange& exchange) {
  Reply refusal = exchange.refusal(front.draining ? shutting_down() : still_loading());
  co_await exchange.reply(std::move(refusal));
}

Status check_serving(const ServerContext& context) {
  if (context.draining) {
    return shutting_down();
  }
  if (!context.engine.stats().ready) {
    return still_loading();
  }
  return {};
}

Result<int32_t> known_context(const ServerContext& context) {
  const int32_t tokens = context.engine.model().context_tokens;
  if (tokens <= 0) {
    return still_loading();
  }
  return tokens;
}

Status check_model_name(const ServerContext& context, const std::string& name) {
  if (name.empty() || !context.options.strict_model_name ||
      name == context.options.served_model_name) {
    return {};
  }
  return Error{ErrorCode::not_found,
               fmt::format("the model '{}' does not exist; served here: '{}'",
                           protocol::printable(std::string_view(name).substr(0, 128)),
                           context.options.served_model_name),
               "model"};
}

void log_hints(const Request& request, const std::vector<std::string>& hints) {
  if (!hints.empty()) {
    log::debug("[{}] accepted without effect: {}", request.id, fmt::join(hints, ", "));
  }
}

Result<json::value> parse_body(const Request& request) {
  if (request.body.empty()) {
    return invalid("the body is empty: expected a JSON object");
  }
  return parse_json(request.body, {.depth_max = 64, .bytes_max = request.body.size()});
}

void cancel_with_client(Exchange& exchange, const std::shared_ptr<Generation>& generation) {
  exchange.on_client_gone([weak = std::weak_ptr(generation)] {
    if (const auto running = weak.lock()) {
      running->cancel();
    }
  });
}

Result<std::shared_ptr<Generation>> start_generation(ServerContext& context, Exchange& exchange,
                                                     RequestRecord& record,
                                                     std::vector<PromptJob> prompts,
                                                     const FieldNames& names, bool stream) {
  record.receive(prompts, stream);
  POME_TRY(check_serving(context));
  POME_TRY(check_choice_count(context.engine.stats(), prompts));
  POME_TRY(check_scores(prompts, names.scores));
  if (record.was_aborted()) {
    return Error{ErrorCode::cancelled, "the request was aborted before it began", {}};
  }
  Result<std::shared_ptr<Generation>> generation =
      Generation::start({.dispatcher = context.dispatcher,
                         .text = context.text,
                         .network = exchange.executor(),
                         .text_pool = context.deltas.executor()},
                        std::move(prompts));
  if (!generation) {
    Error error = generation.error();
    if (error.field == "prompt") {
      error.field = names.prompt;
    } else if (error.field == "max_tokens") {
      error.field = names.limit;
    } else if (error.field == "min_tokens") {
      error.field = names.least;
    } else if (error.field == "score_from") {
      error.field = names.scores;
    } else if (error.field == "logprob_tokens") {
      error.field = names.requested;
    }
    return error;
  }
  record.start();
  cancel_with_client(exchange, *generation);
  return generation;
}

asio::awaitable<Status> take_all(std::shared_ptr<Generation> generation, RequestRecord& record,
                                 std::function<void(Delta)> take) {
  Status status;
  for (;;) {
    std::vector<Delta> deltas = co_await generation->next();
    if (deltas.empty()) {
      break;
    }
    for (Delta& delta : deltas) {
      record.saw(delta);
      if (delta.finish == Finish::error && status) {
        status = delta.error;
        generation->cancel();
      }
      take(std::move(delta));
    }
  }
  co_return status;
}

asio::awaitable<Result<std::vector<ChoiceOutput>>> collect(std::shared_ptr<Generation> generation,
                                                           RequestRecord& record) {
  std::vector<ChoiceOutput> outputs(generation->choice_count());
  std::function<void(Delta)> take = [&outputs](Delta delta) {
    ChoiceOutput& output = outputs[static_cast<size_t>(delta.choice)];
    output.text += delta.text;
    output.reasoning += delta.reasoning;
    add_calls(delta.calls, output.calls);
    std::move(delta.text_tokens.begin(), delta.text_tokens.end(),
              std::back_inserter(output.text_tokens));
    std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(output.tokens));
    std::move(delta.prompt_scores.begin(), delta.prompt_scores.end(),
              std::back_inserter(output.prompt_scores));
    output.last = std::move(delta);
  };
  const Status status = co_await take_all(std::move(generation), record, std::move(take));
  if (!status) {
    co_return status.error();
  }
  co_return outputs;
}

asio::awaitable<void> reply_with(ServerContext& context, Exchange& exchange,
                                 Result<json::object> (*work)(const ServerContext&,
                                                              const Request&)) {
  const Result<json::object> reply =
      co_await context.prompts.run([&] { return work(context, exchange.request()); });
  if (!reply) {
    co_await refuse(context, exchange, reply.error());
    co_return;
  }
  Reply said = json_reply(200, *reply);
  co_await exchange.reply(std::move(said));
}

asio::awaitable<Reply> make_reply(ServerContext& context, bool has_scores,
                                  std::function<json::value()> make) {
  if (has_scores) {
    Result<Reply> reply =
        co_await context.deltas.run([&]() -> Result<Reply> { return json_reply(200, make()); });
    if (reply) {
      co_return std::move(*reply);
    }
  }
  co_return json_reply(200, make());
}

std::string openai_error_event(const Error& error) {
  return protocol::sse_event(protocol::error_body(error));
}

asio::awaitable<void> stream(Exchange& exchange, std::shared_ptr<Generation> generation,
                             RequestRecord& record, const StreamWriter& writer) {
  std::optional<Error> error;
  bool error_sent = false;
  for (;;) {
    const std::vector<Delta> deltas = co_await generation->next();
    if (deltas.empty()) {
      break;
    }
    std::string frames;
    for (size_t i = 0; i < deltas.size(); ++i) {
      const Delta& delta = deltas[i];
      record.saw(delta);
      if (error) {
        continue;
      }
      if (delta.finish == Finish::error) {
        error = delta.error;
        generation->cancel();
      } else if (writer.skip && is_piled_up(deltas, i)) {
        writer.skip(delta);
      } else {
        frames += writer.frames(delta);
      }
    }
    if (error && frames.empty() && !exchange.stream_begun()) {
      continue;  // nothing was said yet, so the error can have its own status
    }
    if (!exchange.stream_begun()) {
      co_await exchange.begin_stream(writer.content_type);
    }
    if (error && !error_sent) {
      error_sent = true;
      frames += writer.error(*error);
    }
    co_await exchange.send(std::move(frames));
  }
  if (!exchange.stream_begun()) {
    const Error cause = error.value_or(Error{});
    Reply answer = exchange.refusal(cause);
    co_await exchange.reply(std::move(answer));
    co_return;
  }
  std::string end = error ? std::string() : writer.tail();
  end += writer.end;
  const bool taken = co_await exchange.send(std::move(end));
  if (!taken) {
    record.leave();
  }
  co_await exchange.end_stream();
}

protocol::openai::Usage usage_of(const ServerContext& context, const std::vector<Delta>& last,
                                 int32_t choices_per_prompt) {
  protocol::openai::Usage usage;
  int64_t cached_tokens = 0;
  for (size_t i = 0; i < last.size(); ++i) {
    usage.completion_tokens += last[i].completion_tokens;
    usage.reasoning_tokens += last[i].reasoning_tokens;
    if (i % static_cast<size_t>(choices_per_prompt) == 0) {
      usage.prompt_tokens += last[i].prompt_tokens;
      cached_tokens += last[i].cached_tokens;
    }
  }
  if (context.options.report_cached_tokens) {
    usage.cached_tokens = cached_tokens;
  }
  return usage;
}

std::vector<protocol::openai::TokenLogprobs> openai_logprobs(const std::vector<OutputToken>& tokens,
                                                             StopEntries stops) {
  const auto piece = [](const TokenPiece& token) {
    return protocol::openai::TokenText{token.token, token.bytes, token.logprob};
  };
  std::vector<protocol::openai::TokenLogprobs> out;
  for (const OutputToken& token : tokens) {
    if (token.is_stop && stops == StopEntries::left_out) {
      continue;
    }
    protocol::openai::TokenLogprobs entry{
        .chosen = piece(token.chosen),
        .characters = token.hidden ? 0 : characters_in(token.chosen.bytes)};
    for (const TokenPiece& other : token.top) {
      entry.top.push_back(piece(other));
    }
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace pome::server
