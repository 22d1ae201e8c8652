#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "protocol/errors.h"
#include "protocol/openai/completions.h"
#include "protocol/openai/replies.h"
#include "server/handlers/answer.h"
#include "server/handlers/handlers.h"

namespace pome::server {
namespace {

namespace openai = protocol::openai;

struct CompletionWork {
  openai::CompletionRequest request;
  std::vector<std::vector<Token>> tokens = {};  // one a prompt
  std::vector<std::string> echoes = {};         // the prompts as text, when they are to be repeated
};

Result<CompletionWork> read_completion(const ServerContext& context, const Request& http) {
  Result<json::value> body = parse_body(http);
  if (!body) {
    return body.error();
  }
  Result<openai::CompletionRequest> request =
      openai::parse_completion_request(*body, context.options.sampling_defaults);
  if (!request) {
    return request.error();
  }
  const Result<int32_t> context_tokens = known_context(context);
  if (!context_tokens) {
    return context_tokens.error();
  }
  CompletionWork work{.request = std::move(*request)};
  for (const openai::Prompt& prompt : work.request.prompts) {
    if (const auto* tokens = std::get_if<std::vector<Token>>(&prompt)) {
      work.tokens.push_back(*tokens);
    } else {
      Result<std::vector<Token>> tokens_of_text =
          encode_prompt(context.text, std::get<std::string>(prompt),
                        work.request.add_special_tokens, *context_tokens, "prompt");
      if (!tokens_of_text) {
        return tokens_of_text.error();
      }
      work.tokens.push_back(std::move(*tokens_of_text));
    }
    if (work.request.echo) {
      const auto* text = std::get_if<std::string>(&prompt);
      work.echoes.push_back(text != nullptr ? *text
                                            : context.text.tokenizer.decode(work.tokens.back()));
    }
  }
  return work;
}

// What `token` adds to the echo of its prompt. BOS and EOS that the tokenizer put around a text are
// no part of it, and control tokens among ids are left out when these are decoded.
int32_t characters_of(const text::Tokenizer& tokenizer, const openai::Prompt& prompt,
                      const OutputToken& token, bool first, bool last) {
  const bool special = tokenizer.is_special(token.chosen.token);
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    const bool bos =
        first && token.chosen.token == tokenizer.bos() && !text->starts_with(token.chosen.bytes);
    const bool eos =
        last && token.chosen.token == tokenizer.eos() && !text->ends_with(token.chosen.bytes);
    return bos || eos ? 0 : characters_in(token.chosen.bytes);
  }
  return special ? 0 : characters_in(token.chosen.bytes);
}

// One entry for each prompt token that stands before `scores` or among them; the first token has no
// log probability.
std::vector<openai::TokenLogprobs> prompt_logprobs(const text::Tokenizer& tokenizer,
                                                   const CompletionWork& work, size_t prompt,
                                                   const std::vector<OutputToken>& scores) {
  const std::vector<Token>& tokens = work.tokens[prompt];
  std::vector<OutputToken> all(1);
  all[0].chosen = {.token = tokens[0], .bytes = tokenizer.piece_bytes(tokens[0]).bytes};
  all.insert(all.end(), scores.begin(), scores.end());
  std::vector<openai::TokenLogprobs> entries = openai_logprobs(all, StopEntries::listed);
  entries[0].scored = false;
  // The space that SentencePiece puts before a first word, and takes away again.
  auto stripped = static_cast<int32_t>(tokenizer.stripped_spaces());
  for (size_t i = 0; i < entries.size(); ++i) {
    int32_t& characters = entries[i].characters;
    characters = characters_of(tokenizer, work.request.prompts[prompt], all[i], i == 0,
                               i + 1 == tokens.size());
    if (characters > 0) {
      const auto word = all[i].chosen.bytes.find_first_not_of(' ');
      const auto spaces = static_cast<int32_t>(std::min(word, all[i].chosen.bytes.size()));
      characters -= std::min(spaces, std::exchange(stripped, 0));
    }
  }
  return entries;
}

int32_t characters_of(const std::vector<openai::TokenLogprobs>& entries) {
  int32_t total = 0;
  for (const openai::TokenLogprobs& entry : entries) {
    total += entry.characters;
  }
  return total;
}

// The log probabilities of a piece of choice `index`, those of its prompt before the first.
std::optional<std::vector<openai::TokenLogprobs>> piece_logprobs(
    const text::Tokenizer& tokenizer, const CompletionWork& work, size_t index, bool first,
    const std::vector<OutputToken>& scores, const std::vector<OutputToken>& tokens) {
  if (work.request.generation.top_logprobs < 0) {
    return std::nullopt;
  }
  std::vector<openai::TokenLogprobs> entries;
  if (first && work.request.echo) {
    const auto prompt = index / static_cast<size_t>(work.request.generation.choices);
    entries = prompt_logprobs(tokenizer, work, prompt, scores);
  }
  for (openai::TokenLogprobs& entry : openai_logprobs(tokens, StopEntries::listed)) {
    entries.push_back(std::move(entry));
  }
  return entries;
}

class CompletionStream {
 public:
  CompletionStream(const ServerContext& context, const CompletionWork& work, openai::ReplyHead head)
      : context_(context),
        work_(work),
        head_(std::move(head)),
        last_(work.tokens.size() * static_cast<size_t>(work.request.generation.choices)),
        begun_(last_.size()),
        characters_(last_.size()) {}

  std::string frames(const Delta& delta) {
    const auto index = static_cast<size_t>(delta.choice);
    const auto prompt = index / static_cast<size_t>(work_.request.generation.choices);
    last_[index] = delta;
    openai::Choice choice{.index = delta.choice,
                          .text = delta.text,
                          .text_offset = characters_[index],
                          .finish_reason = finish_name(delta.finish),
                          .matched_stop = delta.matched_stop};
    if (!begun_[index] && work_.request.echo) {
      choice.text = work_.echoes[prompt] + choice.text;
    }
    choice.logprobs = piece_logprobs(context_.text.tokenizer, work_, index, !begun_[index],
                                     delta.prompt_scores, delta.tokens);
    begun_[index] = true;
    if (choice.logprobs) {
      characters_[index] += characters_of(*choice.logprobs);
    }
    if (choice.text.empty() && choice.finish_reason.empty() &&
        (!choice.logprobs || choice.logprobs->empty())) {
      return {};
    }
    json::object chunk = openai::completion_chunk(head_, choice);
    if (work_.request.stream_options.continuous_usage_stats) {
      chunk["usage"] = openai::usage_body(usage());
    }
    return protocol::sse_event(chunk);
  }

  std::string tail() const {
    return work_.request.stream_options.include_usage
               ? protocol::sse_event(openai::usage_chunk(head_, "text_completion", usage()))
               : std::string();
  }

 private:
  openai::Usage usage() const {
    return usage_of(context_, last_, work_.request.generation.choices);
  }

  const ServerContext& context_;
  const CompletionWork& work_;
  const openai::ReplyHead head_;
  std::vector<Delta> last_;
  std::vector<bool> begun_;
  std::vector<int32_t> characters_;  // of the tokens told so far
};

json::object whole_reply(const ServerContext& context, const CompletionWork& work,
                         const openai::ReplyHead& head, const std::vector<ChoiceOutput>& outputs) {
  const text::Tokenizer& tokenizer = context.text.tokenizer;
  const auto n = static_cast<size_t>(work.request.generation.choices);
  std::vector<openai::Choice> choices;
  std::vector<Delta> last;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ChoiceOutput& output = outputs[i];
    openai::Choice choice{
        .index = static_cast<int32_t>(i),
        .text = (work.request.echo ? work.echoes[i / n] : std::string()) + output.text,
        .finish_reason = finish_name(output.last.finish),
        .matched_stop = output.last.matched_stop};
    choice.logprobs = piece_logprobs(tokenizer, work, i, true, output.prompt_scores, output.tokens);
    choices.push_back(std::move(choice));
    last.push_back(output.last);
  }
  return openai::completion_reply(head, choices,
                                  usage_of(context, last, work.request.generation.choices));
}

std::vector<PromptJob> jobs_of(const CompletionWork& work, const std::string& rid) {
  std::vector<PromptJob> prompts;
  for (const std::vector<Token>& tokens : work.tokens) {
    prompts.push_back({.tokens = tokens,
                       .fields = work.request.generation,
                       .max_tokens_yields = !work.request.max_tokens_named,
                       .rid = rid});
  }
  return prompts;
}

}  // namespace

asio::awaitable<void> handle_completion(ServerContext& context, Exchange& exchange) {
  RequestRecord record(context.journal, exchange.request());
  Result<CompletionWork> work =
      co_await context.prompts.run([&] { return read_completion(context, exchange.request()); });
  if (!work) {
    co_await refuse(context, exchange, record, work.error());
    co_return;
  }
  const openai::CompletionRequest& request = work->request;
  log_hints(exchange.request(), request.hints);
  if (const Status named = check_model_name(context, request.model); !named) {
    co_await refuse(context, exchange, record, named.error());
    co_return;
  }
  if (exchange.client_gone()) {
    co_return;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const openai::ReplyHead head{
      .id = request.rid.empty() ? fmt::format("cmpl-{}", random_id()) : request.rid,
      .created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
      .model = context.options.served_model_name};
  auto generation = start_generation(context, exchange, record, jobs_of(*work, head.id),
                                     {.prompt = "prompt", .limit = "max_tokens"}, request.stream);
  if (!generation) {
    co_await refuse(context, exchange, record, generation.error());
    co_return;
  }
  if (request.stream) {
    CompletionStream completion(context, *work, head);
    const StreamWriter writer{
        .frames = [&](const Delta& delta) { return completion.frames(delta); },
        .tail = [&] { return completion.tail(); }};
    co_await stream(exchange, std::move(*generation), record, writer);
    co_return;
  }
  Result<std::vector<ChoiceOutput>> outputs = co_await collect(std::move(*generation), record);
  if (!outputs) {
    co_await refuse(context, exchange, record, outputs.error());
    co_return;
  }
  const auto make = [&] { return whole_reply(context, *work, head, *outputs); };
  Reply answer = co_await make_reply(context, request.generation.score_from >= 0, make);
  co_await exchange.reply(std::move(answer));
}

}  // namespace pome::server
