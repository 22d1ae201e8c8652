#include "protocol/native/generate.h"

#include <fmt/format.h>

#include "protocol/errors.h"
#include "protocol/openai/replies.h"
#include "server/handlers/answer.h"
#include "server/handlers/handlers.h"

namespace pome::server {
namespace {

namespace native = protocol::native;

struct GenerateWork {
  native::GenerateRequest request;
  std::vector<PromptJob> jobs = {};
};

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
    work.jobs.push_back(std::move(job));
  }
  return work;
}

native::LogprobEntry entry_of(const TokenPiece& piece) {
  return {piece.token, piece.logprob, protocol::openai::valid_utf8(piece.bytes)};
}

// What one choice has said so far, as /generate reports it.
class GenerateChoice {
 public:
  GenerateChoice(std::string rid, int32_t index, bool logprobs, bool text_in_logprobs) {
    output_.rid = std::move(rid);
    output_.index = index;
    output_.text_in_logprobs = text_in_logprobs;
    if (logprobs) {
      output_.logprobs.emplace();
    }
  }

  void add(const std::string& text, const std::vector<OutputToken>& tokens, const Delta& last,
           double seconds) {
    output_.text += text;
    for (const OutputToken& token : tokens) {
      output_.tokens.push_back(token.chosen.token);
      if (output_.logprobs) {
        native::TokenLogprobs entry{.chosen = entry_of(token.chosen)};
        for (const TokenPiece& other : token.top) {
          entry.top.push_back(entry_of(other));
        }
        output_.logprobs->push_back(std::move(entry));
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

  // For --incremental-streaming-output: the next body holds only what is added from now on.
  void forget_said() {
    output_.text.clear();
    output_.tokens.clear();
    if (output_.logprobs) {
      output_.logprobs->clear();
    }
  }

 private:
  native::GenerateOutput output_;
};

std::vector<GenerateChoice> choices_of(const GenerateWork& work) {
  std::vector<GenerateChoice> choices;
  for (const PromptJob& job : work.jobs) {
    for (int32_t k = 0; k < job.fields.choices; ++k) {
      choices.emplace_back(job.fields.choices == 1 ? job.rid : fmt::format("{}_{}", job.rid, k),
                           static_cast<int32_t>(choices.size()), job.fields.top_logprobs >= 0,
                           work.request.text_in_logprobs);
    }
  }
  return choices;
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
  std::vector<GenerateChoice> choices = choices_of(*work);
  const bool by_ids = !work->request.prompts.empty() && work->request.prompts[0].index() == 1;
  auto generation = start_generation(
      context, exchange, record, work->jobs,
      {by_ids ? "input_ids" : "text", "sampling_params.max_new_tokens"}, work->request.stream);
  if (!generation) {
    co_await refuse(context, exchange, record, generation.error());
    co_return;
  }
  if (work->request.stream) {
    const bool incremental = context.options.incremental_streaming_output;
    const auto add = [&](const Delta& delta) -> GenerateChoice& {
      GenerateChoice& choice = choices[static_cast<size_t>(delta.choice)];
      choice.add(delta.text, delta.tokens, delta, record.seconds());
      return choice;
    };
    const StreamWriter writer{.frames =
                                  [&](const Delta& delta) {
                                    GenerateChoice& choice = add(delta);
                                    std::string event = protocol::sse_event(choice.body());
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
  json::array bodies;
  for (size_t i = 0; i < outputs->size(); ++i) {
    const ChoiceOutput& output = (*outputs)[i];
    choices[i].add(output.text, output.tokens, output.last, record.seconds());
    bodies.push_back(choices[i].body());
  }
  const bool single = !work->request.list && bodies.size() == 1;
  Reply answer = json_reply(200, single ? bodies[0] : json::value(bodies));
  co_await exchange.reply(std::move(answer));
}

}  // namespace pome::server
