#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/api.h"
#include "protocol/generation_fields.h"
#include "server/generation/delta.h"
#include "server/generation/dispatcher.h"
#include "server/generation/served_text.h"
#include "text/answer/answer_parser.h"
#include "text/answer/token_parts.h"
#include "text/stream/text_stream.h"

namespace pome::server {

namespace asio = boost::asio;

// One prompt of an HTTP request with the choices it asks for.
struct PromptJob {
  std::vector<Token> tokens = {};
  protocol::GenerationFields fields = {};
  bool max_tokens_yields = false;    // a default: cut to what the context leaves
  std::string rid = {};              // the client's or a drawn id, for /abort_request
  std::string group_rid = {};        // a second id, of all prompts of a list together; may be empty
  text::AnswerReading reading = {};  // how the output is told apart
};

struct GenerationContext {
  Dispatcher& dispatcher;
  const ServedText& text;
  asio::any_io_executor network;               // where next() is awaited
  asio::thread_pool::executor_type text_pool;  // where tokens become text
};

// The continuations of one HTTP request. Choice k of prompt i has index i·n + k. Created and
// awaited on the network thread; events come from the dispatcher's thread and are turned into text
// on the pool.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Submits every job, or none: an error is the engine's refusal.
  static Result<std::shared_ptr<Generation>> start(const GenerationContext& context,
                                                   std::vector<PromptJob> prompts);
  ~Generation();

  // What has come since the last call, in order; waits for something. Empty once every choice has
  // ended.
  asio::awaitable<std::vector<Delta>> next();

  // The client is gone, or an error ended the reply: the engine drops the work. Any thread.
  void cancel();
  // Every choice that still goes on ends with `error`. Any thread.
  void fail(Error error);

  void on_event(engine::Event event);  // the dispatcher's thread

  size_t choice_count() const { return choices_.size(); }

 private:
  // What the parser makes of a choice whose parts are told apart.
  struct Answer {
    explicit Answer(const text::AnswerReading& reading) : parser(reading) {}
    text::AnswerParser parser;
    text::TokenParts parts = {};
    std::deque<OutputToken> undecided = {};  // with log probabilities
    int32_t calls = 0;
    bool has_called = false;
    int32_t reasoning_tokens = 0;
  };
  struct Choice {
    SequenceId sequence{};
    int32_t index = 0;
    bool logprobs = false;
    bool keep_stop = false;
    bool skip_special = true;
    text::TextStream stream;
    std::unique_ptr<Answer> answer = {};          // null: all is text
    std::vector<OutputToken> prompt_scores = {};  // until the first delta
    int32_t completion_tokens = 0;
    bool ended = false;
  };
  struct NamedRequest {
    RequestId id{};
    std::string rid;
  };

  explicit Generation(const GenerationContext& context);
  Status submit(const PromptJob& prompt, int32_t context_tokens);
  using Clock = std::chrono::steady_clock;
  void decode(const engine::Event& event, Clock::time_point at);
  void decode_tokens(const engine::Event& event, Choice& choice, Delta& delta);
  // The text that a token made; true when the answer ends there.
  bool add_text(const std::string& text, Choice& choice, Delta& delta) const;
  // `rest`: what the stream held back.
  void finish_text(const std::string& rest, Choice& choice, Delta& delta) const;
  static void settle(const std::vector<text::AnswerPart>& parts, Answer& answer, Delta& delta);
  void add_answer(text::AnswerDelta said, Answer& answer, Delta& delta) const;
  void add_call(const text::ToolEvent& event, Answer& answer, Delta& delta) const;
  OutputToken describe(const engine::TokenOutput& output, bool logprobs) const;
  std::vector<TokenPiece> describe(const std::vector<engine::TokenLogprob>& others) const;
  void end_choice(const engine::Event& event, Choice& choice, Delta& delta);
  void deliver(Delta delta);

  Dispatcher& dispatcher_;
  const ServedText& text_;
  asio::any_io_executor network_;
  asio::strand<asio::thread_pool::executor_type> strand_;
  std::vector<RequestId> requests_;  // both fixed after start()
  std::vector<NamedRequest> names_;

  std::map<SequenceId, Choice> choices_;  // the strand's after start()

  // The network thread's.
  asio::steady_timer wake_;
  std::deque<Delta> waiting_;
  size_t ended_ = 0;
};

}  // namespace pome::server
