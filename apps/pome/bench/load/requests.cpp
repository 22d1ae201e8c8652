#include "pome/bench/load/requests.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "pome/bench/load/dataset.h"
#include "pome/talk/event_reader.h"

namespace pome::apps {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int32_t number_in(const json::object* object, std::string_view key, int32_t fallback) {
  return object == nullptr ? fallback
                           : static_cast<int32_t>(find_int(*object, key).value_or(fallback));
}

// Reads the events of one answer and notes when its tokens came.
class AnswerClock {
 public:
  AnswerClock(Wire wire, RequestOutcome& outcome) : wire_(wire), outcome_(outcome) {}

  void take(std::string_view data) {
    if (data == "[DONE]") {
      return;
    }
    const double now_s = seconds_since(start_);
    outcome_.latency_s = now_s;
    const auto parsed = parse_json(data);
    const json::object* event = parsed && parsed->is_object() ? &parsed->get_object() : nullptr;
    if (event == nullptr) {
      outcome_.error = "an event is no JSON object";
    } else if (const json::object* error = find_object(*event, "error")) {
      outcome_.error = find_string(*error, "message").value_or("the server gave an error");
    } else {
      read(*event, now_s);
    }
  }

  // An answer that came whole.
  void take_whole(std::string_view body) {
    take(body);
    outcome_.ttft_s = outcome_.latency_s;
    outcome_.gaps_s.clear();
  }

 private:
  void read(const json::object& event, double now_s) {
    if (wire_ == Wire::native) {
      const json::object* meta = find_object(event, "meta_info");
      const int32_t tokens = number_in(meta, "completion_tokens", 0);
      const std::string text = find_string(event, "text").value_or("");
      outcome_.prompt_tokens = number_in(meta, "prompt_tokens", outcome_.prompt_tokens);
      outcome_.cached_tokens = number_in(meta, "cached_tokens", outcome_.cached_tokens);
      hear(tokens - outcome_.output_tokens, tokens > outcome_.output_tokens || !text.empty(),
           now_s);
      outcome_.output_tokens = tokens;
      outcome_.text = text;
      return;
    }
    if (const json::object* usage = find_object(event, "usage")) {
      outcome_.prompt_tokens = number_in(usage, "prompt_tokens", outcome_.prompt_tokens);
      outcome_.output_tokens = number_in(usage, "completion_tokens", outcome_.output_tokens);
      outcome_.cached_tokens = number_in(find_object(*usage, "prompt_tokens_details"),
                                         "cached_tokens", outcome_.cached_tokens);
    }
    const json::array* choices = find_array(event, "choices");
    const json::object* choice =
        choices != nullptr && !choices->empty() ? choices->front().if_object() : nullptr;
    const std::string piece = choice != nullptr ? piece_of(*choice) : "";
    hear(1, !piece.empty(), now_s);
    outcome_.text += piece;
  }

  std::string piece_of(const json::object& choice) const {
    if (wire_ == Wire::completions) {
      return find_string(choice, "text").value_or("");
    }
    const json::object* said = find_object(choice, "delta");
    said = said != nullptr ? said : find_object(choice, "message");
    if (said == nullptr) {
      return "";
    }
    return find_string(*said, "reasoning_content").value_or("") +
           find_string(*said, "content").value_or("");
  }

  void hear(int32_t tokens, bool says_something, double now_s) {
    if (!says_something) {
      return;
    }
    if (outcome_.ttft_s == 0.0) {
      outcome_.ttft_s = now_s;
    } else if (tokens > 0) {
      outcome_.gaps_s.insert(outcome_.gaps_s.end(), static_cast<size_t>(tokens),
                             (now_s - last_s_) / tokens);
    }
    last_s_ = now_s;
  }

  const Wire wire_;
  RequestOutcome& outcome_;
  const Clock::time_point start_ = Clock::now();
  double last_s_ = 0.0;
};

// Threads that take bodies as they arrive; one more whenever all are busy.
class Senders {
 public:
  Senders(const HttpClient& client, Wire wire, const std::vector<std::string>& bodies,
          const LoadOptions& options)
      : client_(client),
        wire_(wire),
        bodies_(bodies),
        options_(options),
        outcomes_(bodies.size()) {}

  void arrive(size_t index) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(index);
    const bool more =
        options_.together_max == 0 || threads_.size() < static_cast<size_t>(options_.together_max);
    if (idle_ < waiting_.size() && more) {
      threads_.emplace_back([this] { send(); });
    }
    changed_.notify_one();
  }

  std::vector<RequestOutcome> finish() {
    {
      const std::lock_guard lock(mutex_);
      complete_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
    return std::move(outcomes_);
  }

 private:
  void send() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      changed_.wait(lock, [this] { return complete_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) {
        return;
      }
      const size_t index = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const double started_s = seconds_since(start_);
      RequestOutcome outcome = send_request(client_, wire_, bodies_[index]);
      outcome.started_s = started_s;
      lock.lock();
      ++done_;
      if (options_.on_end) {
        options_.on_end(done_, outcome);
      }
      outcomes_[index] = std::move(outcome);
    }
  }

  const HttpClient& client_;
  const Wire wire_;
  const std::vector<std::string>& bodies_;
  const LoadOptions& options_;
  const Clock::time_point start_ = Clock::now();
  std::vector<RequestOutcome> outcomes_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<size_t> waiting_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  size_t done_ = 0;
  bool complete_ = false;
};

}  // namespace

Wire wire_of(std::string_view backend) {
  if (backend == "sglang" || backend == "sglang-native") {
    return Wire::native;
  }
  return backend.ends_with("-chat") ? Wire::chat : Wire::completions;
}

const char* path_of(Wire wire) {
  return wire == Wire::native        ? "/generate"
         : wire == Wire::completions ? "/v1/completions"
                                     : "/v1/chat/completions";
}

RequestOutcome send_request(const HttpClient& client, Wire wire, const std::string& body) {
  RequestOutcome outcome;
  AnswerClock clock(wire, outcome);
  EventReader events;
  bool streamed = false;
  std::string whole;  // of an answer that is no stream
  const auto answer = client.exchange("POST", path_of(wire), body, [&](std::string_view piece) {
    events.push(piece, [&](std::string_view data) {
      streamed = true;
      clock.take(data);
    });
    if (!streamed) {
      whole += piece;
    }
  });
  if (!answer) {
    outcome.error = answer.error().message;
  } else if (answer->status != 200) {
    outcome.error = explain_answer(*answer);
  } else if (!streamed) {
    clock.take_whole(whole);
  }
  outcome.ttft_s = outcome.ttft_s == 0.0 ? outcome.latency_s : outcome.ttft_s;
  outcome.ok = outcome.error.empty();
  return outcome;
}

std::vector<RequestOutcome> run_load(const HttpClient& client, Wire wire,
                                     const std::vector<std::string>& bodies,
                                     const LoadOptions& options) {
  std::mt19937_64 random(options.seed);
  Senders senders(client, wire, bodies, options);
  auto next = Clock::now();
  for (size_t i = 0; i < bodies.size(); ++i) {
    senders.arrive(i);
    if (options.requests_per_s > 0 && i + 1 < bodies.size()) {
      next += std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(draw_gap(random, options.requests_per_s)));
      std::this_thread::sleep_until(next);
    }
  }
  return senders.finish();
}

}  // namespace pome::apps
