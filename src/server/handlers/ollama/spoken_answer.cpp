#include "server/handlers/ollama/spoken_answer.h"

#include <utility>

#include "server/handlers/answer.h"

namespace pome::server {

namespace ollama = protocol::ollama;

ollama::Said SpokenAnswer::add(const Delta& delta) {
  note_tokens(delta);
  ollama::Said said{.first_call = calls_};
  parts_.add(
      delta,
      [&](std::string_view piece) {
        release_call(said);
        said.thinking += piece;
      },
      [&](std::string_view piece) {
        release_call(said);
        said.text += piece;
      },
      [&](const CallPiece& piece) {
        if (!piece.id.empty()) {  // the first piece of a call
          release_call(said);
          call_ = piece;
        } else if (call_) {
          call_->arguments += piece.arguments;
        }
      });
  if (options_.logprobs) {
    said.logprobs = openai_logprobs(options_.tells_parts_apart ? delta.text_tokens : delta.tokens,
                                    StopEntries::left_out);
  }
  return said;
}

ollama::Said SpokenAnswer::finish() {
  ollama::Said said{.first_call = calls_};
  release_call(said);
  return said;
}

void SpokenAnswer::release_call(ollama::Said& said) {
  if (!call_) {
    return;
  }
  const CallPiece call = *std::exchange(call_, std::nullopt);
  const Result<json::value> parsed = parse_json(call.arguments, {.depth_max = 256});
  const bool is_object = parsed && parsed->is_object();
  said.calls.push_back({call.id, call.name, is_object ? parsed->get_object() : json::object()});
  ++calls_;
}

void SpokenAnswer::note_tokens(const Delta& delta) {
  if (delta.tokens.empty()) {
    return;
  }
  first_token_ = first_token_.value_or(delta.at);
  last_token_ = delta.at;
  if (options_.context) {
    for (const OutputToken& token : delta.tokens) {
      options_.context->push_back(token.chosen.token);
    }
  }
}

ollama::Ended SpokenAnswer::ended(const Delta& last) const {
  ollama::Ended ended{.reason = finish_name(last.finish),
                      .total = Clock::now() - options_.arrived,
                      .prompt_tokens = last.prompt_tokens,
                      .tokens = last.completion_tokens,
                      .context = options_.context};
  if (first_token_) {
    ended.until_first_token = *first_token_ - options_.started;
    ended.between_first_and_last = last_token_ - *first_token_;
  }
  return ended;
}

}  // namespace pome::server
