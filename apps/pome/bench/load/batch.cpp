#include "pome/bench/load/batch.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "pome/talk/event_reader.h"

namespace pome::apps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPromptsAtOnce = 64;  // that one request may carry

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One request of the batch and what its events say.
class Part {
 public:
  Part(const std::vector<std::vector<Token>>& prompts, size_t begin, size_t end,
       json::object fields)
      : seen_(end - begin, 0), body_(std::move(fields)) {
    json::array lists;
    for (size_t i = begin; i < end; ++i) {
      lists.push_back(json::array(prompts[i].begin(), prompts[i].end()));
    }
    body_["input_ids"] = std::move(lists);
    body_["stream"] = true;
  }

  void send(const HttpClient& client, Clock::time_point start) {
    EventReader events;
    const auto answer = client.exchange(
        "POST", "/generate", to_string(json::value(body_)), [&](std::string_view piece) {
          events.push(piece, [&](std::string_view data) { take(data, seconds_since(start)); });
        });
    latency_s_ = seconds_since(start);
    if (!answer) {
      fail(answer.error().message);
    } else if (answer->status != 200) {
      fail(explain_answer(*answer));
    } else if (std::find(seen_.begin(), seen_.end(), 0) != seen_.end()) {
      fail("a prompt of the batch got no token");
    }
  }

  Status add_to(BatchOutcome& outcome) const {
    if (!error_.empty()) {
      return Error{ErrorCode::unavailable, "POST /generate: " + error_, ""};
    }
    outcome.latency_s = std::max(outcome.latency_s, latency_s_);
    outcome.last_ttft_s = std::max(outcome.last_ttft_s, last_ttft_s_);
    for (const int32_t tokens : seen_) {
      outcome.output_tokens += tokens;
    }
    outcome.ended_early += ended_early_;
    return {};
  }

 private:
  void take(std::string_view data, double now_s) {
    const auto parsed = parse_json(data);
    const json::object* event = parsed && parsed->is_object() ? &parsed->get_object() : nullptr;
    if (event == nullptr) {
      return;  // [DONE]
    }
    if (const json::object* error = find_object(*event, "error")) {
      fail(find_string(*error, "message").value_or("the server gave an error"));
      return;
    }
    const auto index = static_cast<size_t>(find_int(*event, "index").value_or(0));
    const json::object* meta = find_object(*event, "meta_info");
    if (meta == nullptr || index >= seen_.size()) {
      return;
    }
    const auto tokens = static_cast<int32_t>(find_int(*meta, "completion_tokens").value_or(0));
    if (seen_[index] == 0 && tokens > 0) {
      last_ttft_s_ = std::max(last_ttft_s_, now_s);
    }
    seen_[index] = std::max(seen_[index], tokens);
    const json::object* finish = find_object(*meta, "finish_reason");
    ended_early_ += finish != nullptr && find_string(*finish, "type") == "stop" ? 1 : 0;
  }

  void fail(std::string error) {
    if (error_.empty()) {
      error_ = std::move(error);
    }
  }

  std::vector<int32_t> seen_;  // tokens of each prompt
  json::object body_;
  double latency_s_ = 0.0;
  double last_ttft_s_ = 0.0;
  int32_t ended_early_ = 0;
  std::string error_;
};

}  // namespace

Result<BatchOutcome> run_batch(const HttpClient& client,
                               const std::vector<std::vector<Token>>& prompts,
                               const json::object& fields) {
  std::vector<Part> parts;
  for (size_t begin = 0; begin < prompts.size(); begin += kPromptsAtOnce) {
    parts.emplace_back(prompts, begin, std::min(begin + kPromptsAtOnce, prompts.size()), fields);
  }
  const Clock::time_point start = Clock::now();
  std::vector<std::thread> others;
  for (size_t i = 1; i < parts.size(); ++i) {
    others.emplace_back([&client, start, part = &parts[i]] { part->send(client, start); });
  }
  parts.front().send(client, start);
  for (std::thread& thread : others) {
    thread.join();
  }
  BatchOutcome outcome;
  for (const Part& part : parts) {
    POME_TRY(part.add_to(outcome));
  }
  return outcome;
}

}  // namespace pome::apps
