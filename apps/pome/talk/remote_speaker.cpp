#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "hub/transfer/download.h"
#include "pome/talk/event_reader.h"
#include "pome/talk/speaker.h"

namespace pome::apps {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::optional<std::string> error_message(std::string_view text) {
  auto parsed = parse_json(text);
  if (!parsed || !parsed.value().is_object()) {
    return std::nullopt;
  }
  const json::object* error = pome::find_object(parsed.value().get_object(), "error");
  return error ? find_string(*error, "message") : std::nullopt;
}

class RemoteSpeaker final : public Speaker {
 public:
  RemoteSpeaker(std::string url, std::string api_key, hub::Settings hub)
      : url_(std::move(url)), api_key_(std::move(api_key)), hub_(std::move(hub)) {
    while (url_.ends_with('/')) {
      url_.pop_back();
    }
    if (!url_.ends_with("/v1")) {
      url_ += "/v1";
    }
  }

  std::string name() const override { return url_; }

  Result<Answer> answer(const json::array& messages, const AnswerOptions& options,
                        const OnText& on_text, const std::atomic<bool>& stop) override {
    hub::HttpRequest request = hub::request_for(hub_, url_ + "/chat/completions");
    request.method = "POST";
    request.read_timeout_s = 600;
    request.stop = &stop;
    request.headers["Content-Type"] = "application/json";
    if (!api_key_.empty()) {
      request.headers["Authorization"] = "Bearer " + api_key_;
    }
    request.body = to_string(json::value(body_of(messages, options)));
    const auto start = Clock::now();
    Answer answer;
    EventReader events;
    int status = 0;
    std::string failure;
    hub::HttpSink sink;
    sink.on_head = [&](const hub::HttpResponse& head) {
      status = head.status;
      return !stop;
    };
    sink.on_body = [&](std::span<const std::byte> bytes) {
      events.push({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                  [&](std::string_view data) { take(data, answer, failure, on_text, start); });
      return !stop;
    };
    const auto outcome = hub::http_exchange(request, sink);
    answer.total_s = seconds_since(start);
    if (!outcome && outcome.error().code != ErrorCode::cancelled) {
      return outcome.error();
    }
    if (status != 200 && status != 0) {
      failure = error_message(events.rest()).value_or(fmt::format("{} answered {}", url_, status));
    }
    if (!failure.empty()) {
      return Error{ErrorCode::unavailable, failure, ""};
    }
    answer.finish = stop ? "interrupted" : answer.finish;
    return answer;
  }

 private:
  static json::object body_of(const json::array& messages, const AnswerOptions& options) {
    json::object body = {{"model", "default"},
                         {"messages", messages},
                         {"stream", true},
                         {"stream_options", json::object{{"include_usage", true}}}};
    if (options.max_tokens) {
      body["max_tokens"] = *options.max_tokens;
    }
    if (options.temperature) {
      body["temperature"] = *options.temperature;
    }
    if (options.top_p) {
      body["top_p"] = *options.top_p;
    }
    if (options.seed) {
      body["seed"] = *options.seed;
    }
    return body;
  }

  static void take(std::string_view data, Answer& answer, std::string& failure,
                   const OnText& on_text, Clock::time_point start) {
    if (auto message = error_message(data)) {
      failure = *message;
      return;
    }
    auto parsed = parse_json(data);
    if (!parsed || !parsed.value().is_object()) {
      return;
    }
    const json::object& chunk = parsed.value().get_object();
    if (const json::object* usage = pome::find_object(chunk, "usage")) {
      answer.prompt_tokens = static_cast<int32_t>(find_int(*usage, "prompt_tokens").value_or(0));
      answer.completion_tokens =
          static_cast<int32_t>(find_int(*usage, "completion_tokens").value_or(0));
    }
    const json::array* choices = find_array(chunk, "choices");
    const json::object* choice =
        choices && !choices->empty() ? choices->front().if_object() : nullptr;
    const json::object* delta = choice ? pome::find_object(*choice, "delta") : nullptr;
    if (const auto text = delta ? find_string(*delta, "content") : std::nullopt;
        text && !text->empty()) {
      answer.first_token_s = answer.first_token_s > 0 ? answer.first_token_s : seconds_since(start);
      answer.text += *text;
      on_text(*text);
    }
    if (const auto finish = choice ? find_string(*choice, "finish_reason") : std::nullopt) {
      answer.finish = *finish;
    }
  }

  std::string url_;
  const std::string api_key_;
  const hub::Settings hub_;
};

}  // namespace

std::unique_ptr<Speaker> make_remote_speaker(std::string url, std::string api_key,
                                             hub::Settings hub) {
  return std::make_unique<RemoteSpeaker>(std::move(url), std::move(api_key), std::move(hub));
}

}  // namespace pome::apps
