#include "server/generation/generation.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <iterator>
#include <utility>

#include "server/http/request.h"

namespace pome::server {
namespace {

engine::Job make_job(const PromptJob& prompt, RequestId request, SequenceId sequence,
                     int32_t context_tokens) {
  const protocol::GenerationFields& fields = prompt.fields;
  const auto left = static_cast<int32_t>(
      std::max<int64_t>(1, context_tokens - static_cast<int64_t>(prompt.tokens.size())));
  engine::Job job;
  job.request = request;
  job.sequence = sequence;
  job.segments = {{.tokens = prompt.tokens}};
  job.sampling = fields.sampling;
  job.max_tokens = fields.max_tokens.value_or(left);
  if (prompt.max_tokens_yields) {
    job.max_tokens = std::min(job.max_tokens, left);
  }
  job.stop_tokens = fields.stop_tokens;
  job.ignore_eos = fields.ignore_eos;
  job.priority = fields.priority;
  job.cache_namespace = fields.cache_namespace;
  job.top_logprobs = fields.top_logprobs;
  job.logprob_tokens = fields.logprob_tokens;
  job.score_from = fields.score_from;
  return job;
}

// JSON has no infinity; a token that cannot be gets OpenAI's -9999.
float finite(float logprob) {
  return std::isfinite(logprob) ? logprob : -9999.0f;
}

void add_plain(const std::string& text, Delta& delta) {
  delta.text += text;
  text::add_run(delta.order, text::AnswerPart::content, text.size());
}

// For a call that the model gave none. Mistral's templates take ids of nine characters only.
std::string new_call_id(const text::AnswerForms& forms) {
  const std::string id = random_id();
  return forms.calls == text::ToolDialect::mistral ? id.substr(0, 9) : "call_" + id;
}

}  // namespace

Generation::Generation(const GenerationContext& context)
    : dispatcher_(context.dispatcher),
      text_(context.text),
      network_(context.network),
      strand_(asio::make_strand(context.text_pool)),
      wake_(context.network, asio::steady_timer::time_point::max()) {}

Result<std::shared_ptr<Generation>> Generation::start(const GenerationContext& context,
                                                      std::vector<PromptJob> prompts) {
  std::shared_ptr<Generation> generation(new Generation(context));
  const int32_t context_tokens = context.dispatcher.engine().model().context_tokens;
  // Every choice exists before the first event can come: the map is the strand's from then on.
  std::vector<engine::Job> jobs;
  for (const PromptJob& prompt : prompts) {
    const RequestId request = context.dispatcher.next_request();
    generation->requests_.push_back(request);
    generation->names_.push_back({request, prompt.rid});
    if (!prompt.group_rid.empty()) {
      generation->names_.push_back({request, prompt.group_rid});
    }
    const bool skip_special =
        prompt.fields.skip_special_tokens && !prompt.reading.keeps_control_tokens;
    for (int32_t k = 0; k < prompt.fields.choices; ++k) {
      const SequenceId sequence = context.dispatcher.next_sequence();
      jobs.push_back(make_job(prompt, request, sequence, context_tokens));
      if (jobs.back().sampling.seed) {
        *jobs.back().sampling.seed += static_cast<uint64_t>(k);  // n choices of one seed differ
      }
      generation->choices_.emplace(
          sequence, Choice{.sequence = sequence,
                           .index = static_cast<int32_t>(jobs.size() - 1),
                           .logprobs = prompt.fields.top_logprobs >= 0,
                           .keep_stop = prompt.fields.keep_stop,
                           .skip_special = skip_special,
                           .stream = text::TextStream(context.text.tokenizer,
                                                      {.stops = prompt.fields.stop,
                                                       .no_stop_trim = prompt.fields.keep_stop,
                                                       .skip_special = skip_special}),
                           .answer = prompt.reading.reads_anything()
                                         ? std::make_unique<Answer>(prompt.reading)
                                         : nullptr});
    }
  }
  for (const NamedRequest& request : generation->names_) {
    context.dispatcher.name_request(request.rid, request.id);
  }
  for (engine::Job& job : jobs) {
    const SequenceId sequence = job.sequence;
    context.dispatcher.add(sequence, generation);
    if (const Status status = context.dispatcher.engine().submit(std::move(job)); !status) {
      context.dispatcher.remove(sequence);
      generation->cancel();
      return status.error();
    }
  }
  return generation;
}

Generation::~Generation() {
  for (const NamedRequest& request : names_) {
    dispatcher_.forget_request(request.rid, request.id);
  }
}

asio::awaitable<std::vector<Delta>> Generation::next() {
  const auto self = shared_from_this();
  while (waiting_.empty() && ended_ < choices_.size()) {
    boost::system::error_code ignored;
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  std::vector<Delta> taken(std::make_move_iterator(waiting_.begin()),
                           std::make_move_iterator(waiting_.end()));
  waiting_.clear();
  co_return taken;
}

void Generation::cancel() {
  for (const RequestId request : requests_) {
    dispatcher_.engine().cancel(request);
  }
}

void Generation::fail(Error error) {
  asio::post(strand_, [self = shared_from_this(), error = std::move(error)] {
    for (auto& [sequence, choice] : self->choices_) {
      if (choice.ended) {
        continue;
      }
      choice.ended = true;
      self->deliver(
          {.choice = choice.index, .finish = Finish::error, .error = error, .at = Clock::now()});
    }
  });
}

void Generation::on_event(engine::Event event) {
  asio::post(strand_, [self = shared_from_this(), event = std::move(event), at = Clock::now()] {
    self->decode(event, at);
  });
}

void Generation::decode(const engine::Event& event, Clock::time_point at) {
  const auto found = choices_.find(event.sequence);
  if (found == choices_.end() || found->second.ended) {
    return;  // surplus after a stop string
  }
  Choice& choice = found->second;
  for (const engine::TokenOutput& score : event.prompt_scores) {
    choice.prompt_scores.push_back(describe(score, true));
  }
  if (event.tokens.empty() && event.finish == engine::FinishReason::none) {
    return;  // a part of the prompt, which is told as a whole
  }
  Delta delta{.choice = choice.index,
              .prompt_tokens = event.prompt_tokens,
              .cached_tokens = event.cached_tokens,
              .at = at};
  delta.prompt_scores.swap(choice.prompt_scores);
  decode_tokens(event, choice, delta);
  if (!choice.ended && event.finish != engine::FinishReason::none) {
    end_choice(event, choice, delta);
  }
  delta.completion_tokens = choice.completion_tokens;
  if (choice.answer) {
    delta.has_called = choice.answer->has_called;
    delta.reasoning_tokens = choice.answer->reasoning_tokens;
  }
  deliver(std::move(delta));
}

void Generation::decode_tokens(const engine::Event& event, Choice& choice, Delta& delta) {
  for (size_t i = 0; i < event.tokens.size(); ++i) {
    const engine::TokenOutput& output = event.tokens[i];
    OutputToken described = describe(output, choice.logprobs);
    described.is_stop = i + 1 == event.tokens.size() &&
                        event.finish == engine::FinishReason::stop_token &&
                        event.matched_stop == output.token;
    ++choice.completion_tokens;
    const bool trimmed = described.is_stop && !choice.keep_stop;
    described.hidden = trimmed || (choice.skip_special && text_.tokenizer.is_special(output.token));
    delta.tokens.push_back(std::move(described));
    if (trimmed) {
      continue;
    }
    text::TextDelta piece = choice.stream.push(std::span(&output.token, 1));
    const bool ends = add_text(piece.text, choice, delta) || piece.finished;
    if (ends) {
      finish_text({}, choice, delta);
      choice.ended = true;
      delta.finish = Finish::stop;
      if (piece.matched_stop) {
        delta.matched_stop = *piece.matched_stop;
      }
      dispatcher_.engine().finish(choice.sequence);
      return;
    }
  }
}

bool Generation::add_text(const std::string& text, Choice& choice, Delta& delta) const {
  if (!choice.answer) {
    add_plain(text, delta);
    return false;
  }
  text::AnswerDelta said = choice.answer->parser.feed(text);
  if (choice.logprobs) {
    choice.answer->undecided.push_back(delta.tokens.back());
  }
  settle(choice.answer->parts.push(text.size(), said), *choice.answer, delta);
  const bool ends = said.finished;
  add_answer(std::move(said), *choice.answer, delta);
  return ends;
}

void Generation::finish_text(const std::string& rest, Choice& choice, Delta& delta) const {
  if (!choice.answer) {
    add_plain(rest, delta);
    return;
  }
  text::AnswerDelta said = choice.answer->parser.finish(rest);
  settle(choice.answer->parts.finish(rest.size(), said), *choice.answer, delta);
  add_answer(std::move(said), *choice.answer, delta);
}

// The parts of the oldest undecided tokens.
void Generation::settle(const std::vector<text::AnswerPart>& parts, Answer& answer, Delta& delta) {
  for (const text::AnswerPart part : parts) {
    answer.reasoning_tokens += part == text::AnswerPart::reasoning ? 1 : 0;
    if (answer.undecided.empty()) {
      continue;  // no log probabilities are wanted
    }
    if (part == text::AnswerPart::content) {
      delta.text_tokens.push_back(std::move(answer.undecided.front()));
    }
    answer.undecided.pop_front();
  }
}

void Generation::add_answer(text::AnswerDelta said, Answer& answer, Delta& delta) const {
  delta.text += said.content;
  delta.reasoning += said.reasoning;
  auto event = said.calls.begin();
  for (const text::AnswerRun& run : said.order) {
    if (run.part != text::AnswerPart::call) {
      text::add_run(delta.order, run.part, run.size);
      continue;
    }
    const size_t before = delta.calls.size();
    for (size_t i = 0; i < run.size; ++i) {
      add_call(*event++, answer, delta);
    }
    text::add_run(delta.order, run.part, delta.calls.size() - before);
  }
}

void Generation::add_call(const text::ToolEvent& event, Answer& answer, Delta& delta) const {
  using Kind = text::ToolEvent::Kind;
  if (event.kind == Kind::call_begins) {
    delta.calls.push_back({.call = answer.calls++,
                           .id = event.id.empty() ? new_call_id(text_.forms) : event.id,
                           .name = event.text});
  } else if (event.kind == Kind::call_ends) {
    answer.has_called = answer.has_called || event.whole;
  } else if (!delta.calls.empty() && delta.calls.back().call == answer.calls - 1) {
    delta.calls.back().arguments += event.text;
  } else {
    delta.calls.push_back({.call = answer.calls - 1, .arguments = event.text});
  }
}

OutputToken Generation::describe(const engine::TokenOutput& output, bool logprobs) const {
  OutputToken token;
  token.chosen.token = output.token;
  if (!logprobs) {
    return token;
  }
  token.chosen.logprob = finite(output.logprob);
  token.chosen.bytes = text_.tokenizer.piece_bytes(output.token).bytes;
  token.top = describe(output.top);
  token.requested = describe(output.requested);
  return token;
}

std::vector<TokenPiece> Generation::describe(
    const std::vector<engine::TokenLogprob>& others) const {
  std::vector<TokenPiece> pieces;
  for (const engine::TokenLogprob& other : others) {
    pieces.push_back(
        {other.token, finite(other.logprob), text_.tokenizer.piece_bytes(other.token).bytes});
  }
  return pieces;
}

void Generation::end_choice(const engine::Event& event, Choice& choice, Delta& delta) {
  finish_text(choice.stream.finish().text, choice, delta);
  choice.ended = true;
  switch (event.finish) {
    case engine::FinishReason::stop_token:
      delta.finish = Finish::stop;
      if (event.matched_stop) {
        delta.matched_stop = *event.matched_stop;
      }
      break;
    case engine::FinishReason::length:
      delta.finish = Finish::length;
      break;
    case engine::FinishReason::cancelled:
      delta.finish = Finish::abort;
      break;
    case engine::FinishReason::error:
      delta.finish = Finish::error;
      delta.error = event.error;
      break;
    case engine::FinishReason::none:
      CHECK(false, "an event without a finish reason ends nothing");
  }
}

void Generation::deliver(Delta delta) {
  asio::post(network_, [self = shared_from_this(), delta = std::move(delta)]() mutable {
    if (delta.finish != Finish::none) {
      ++self->ended_;
    }
    self->waiting_.push_back(std::move(delta));
    self->wake_.cancel();
  });
}

}  // namespace pome::server
