#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "pome/talk/speaker.h"
#include "text/stream/text_stream.h"

namespace pome::apps {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class LocalSpeaker final : public Speaker {
 public:
  explicit LocalSpeaker(OpenModel model) : model_(std::move(model)) {}
  ~LocalSpeaker() override { model_.engine->stop(); }

  std::string name() const override { return model_.served_name; }

  Result<Answer> answer(const json::array& messages, const AnswerOptions& options,
                        const OnText& on_text, const std::atomic<bool>& stop) override {
    const int32_t context = model_.engine->model().context_tokens;
    auto prompt = encode(messages, context);
    if (!prompt) {
      return prompt.error();
    }
    engine::Job job;
    job.request = RequestId{++requests_};
    job.sequence = SequenceId{requests_};
    job.sampling = sampling_of(options);
    const auto room = context - static_cast<int32_t>(prompt->size());
    job.max_tokens = std::min(options.max_tokens.value_or(room), std::max(room, 1));
    job.segments.push_back({std::move(prompt).value()});
    const RequestId request = job.request;
    POME_TRY(model_.engine->submit(std::move(job)));
    return follow(request, on_text, stop);
  }

 private:
  Result<std::vector<Token>> encode(const json::array& messages, int32_t context) const {
    if (model_.text.chat) {
      server::ChatQuestion question;
      question.input.messages = messages;
      auto prompt = server::encode_chat(model_.text, question, context);
      return prompt ? Result<std::vector<Token>>(std::move(prompt->tokens)) : prompt.error();
    }
    // A base model goes on from what was said.
    std::string prompt;
    for (const auto& message : messages) {
      prompt += find_string(message.as_object(), "content").value_or("") + "\n";
    }
    prompt.pop_back();
    return server::encode_prompt(model_.text, prompt, true, context, "prompt");
  }

  sampling::Params sampling_of(const AnswerOptions& options) const {
    sampling::Params params = model_.sampling_defaults;
    params.temperature = options.temperature.value_or(params.temperature);
    params.top_p = options.top_p.value_or(params.top_p);
    params.seed = options.seed;
    return params;
  }

  Result<Answer> follow(RequestId request, const OnText& on_text, const std::atomic<bool>& stop) {
    const auto start = Clock::now();
    text::TextStream stream(model_.text.tokenizer, {});
    Answer answer;
    const auto say = [&](const std::string& piece) {
      answer.text += piece;
      if (!piece.empty()) {
        on_text(piece);
      }
    };
    bool cancelled = false;
    while (true) {
      for (const auto& event : model_.engine->wait_events(std::chrono::milliseconds(50))) {
        if (event.request != request) {
          continue;
        }
        if (!event.tokens.empty() && answer.first_token_s == 0) {
          answer.first_token_s = seconds_since(start);
        }
        say(stream.push(text_tokens(event)).text);
        answer.prompt_tokens = event.prompt_tokens;
        answer.completion_tokens = event.completion_tokens;
        if (event.finish == engine::FinishReason::error) {
          return event.error;
        }
        if (event.finish != engine::FinishReason::none) {
          say(stream.finish().text);
          answer.finish = cancelled                                      ? "interrupted"
                          : event.finish == engine::FinishReason::length ? "length"
                                                                         : "stop";
          answer.total_s = seconds_since(start);
          return answer;
        }
      }
      if (stop && !std::exchange(cancelled, true)) {
        model_.engine->cancel(request);
      }
    }
  }

  // The token that ends an answer is reported, and not a part of its text.
  static std::vector<Token> text_tokens(const engine::Event& event) {
    std::vector<Token> tokens;
    for (const auto& output : event.tokens) {
      tokens.push_back(output.token);
    }
    if (event.finish == engine::FinishReason::stop_token && event.matched_stop && !tokens.empty()) {
      tokens.pop_back();
    }
    return tokens;
  }

  OpenModel model_;
  uint64_t requests_ = 0;
};

}  // namespace

std::string speed_line(const Answer& answer) {
  const double decode_s = answer.total_s - answer.first_token_s;
  const double prompt_rate =
      answer.first_token_s > 0 ? answer.prompt_tokens / answer.first_token_s : 0;
  const double decode_rate = decode_s > 0 ? (answer.completion_tokens - 1) / decode_s : 0;
  return fmt::format("{} prompt tokens at {:.1f}/s, {} answer tokens at {:.1f}/s{}",
                     answer.prompt_tokens, prompt_rate, answer.completion_tokens,
                     std::max(decode_rate, 0.0),
                     answer.finish == "stop" ? "" : " (" + answer.finish + ")");
}

Result<std::unique_ptr<Speaker>> make_local_speaker(OpenModel model) {
  POME_TRY(model.engine->wait_until_ready(kLoadTimeout));
  return std::unique_ptr<Speaker>(std::make_unique<LocalSpeaker>(std::move(model)));
}

}  // namespace pome::apps
