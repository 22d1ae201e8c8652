#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <thread>

#include "client.h"
#include "scenarios.h"

namespace pome::bench {
namespace {

constexpr int32_t kPrompts = 8;
constexpr int32_t kPromptTokens = 3000;
constexpr int32_t kStreams = 4;
constexpr int32_t kStreamPromptTokens = 64;
constexpr int32_t kStreamTokensMax = 4000;  // they are cut when the prompts are read
constexpr int32_t kChatTokens = 20;
constexpr int32_t kChatOutputTokens = 8;
constexpr double kChatFirstTokenMs = 400.0;
constexpr double kStreamGapMs = 250.0;
constexpr double kPrefillPart = 0.85;

struct Mixed {
  double prefill_tokens_per_s = 0.0;
  std::vector<double> chat_ms = {};  // to the first token
  std::vector<double> gaps_ms = {};  // between a stream's tokens
};

class Load {
 public:
  Load(Client& client, uint32_t seed) : client_(client), random_(seed) {}

  // The prompts alone.
  double unmixed() {
    client_.flush_cache();
    return read_prompts([](Clock::time_point) {});
  }

  // `streams` are running when the prompts arrive.
  Mixed mixed(int32_t streams) {
    client_.flush_cache();
    std::vector<SequenceId> running;
    for (int32_t i = 0; i < streams; ++i) {
      running.push_back(client_.send(prompt(kStreamPromptTokens), kStreamTokensMax));
    }
    for (const SequenceId stream : running) {
      client_.wait_tokens(stream, 8);
    }
    Mixed mixed;
    std::vector<SequenceId> chats;
    const Clock::time_point begin = Clock::now();
    Clock::time_point next_chat = begin + random_pause();
    mixed.prefill_tokens_per_s = read_prompts([&](Clock::time_point now) {
      if (now >= next_chat) {
        chats.push_back(client_.send(prompt(kChatTokens), kChatOutputTokens));
        next_chat = now + random_pause();
      }
    });
    const Clock::time_point end = Clock::now();
    for (const SequenceId stream : running) {
      add_gaps(client_.look(stream), begin, end, mixed.gaps_ms);
      client_.cancel(stream);
    }
    for (const SequenceId stream : running) {
      client_.wait(stream);
    }
    for (const SequenceId chat : chats) {
      const Answer answer = client_.wait(chat);
      if (answer.tokens.front() <= end) {
        mixed.chat_ms.push_back(1e3 * answer.first_token_s());
      }
    }
    return mixed;
  }

 private:
  std::vector<Token> prompt(int32_t tokens) {
    return made_up_prompt(tokens, static_cast<uint32_t>(random_()), client_.model().vocab_tokens);
  }

  std::chrono::milliseconds random_pause() {
    return std::chrono::milliseconds(std::uniform_int_distribution<int>(500, 2500)(random_));
  }

  // Until each has its first token; `look` is called every few milliseconds.
  template <typename Look>
  double read_prompts(Look look) {
    const Clock::time_point begin = Clock::now();
    std::vector<SequenceId> prompts;
    for (int32_t i = 0; i < kPrompts; ++i) {
      prompts.push_back(client_.send(prompt(kPromptTokens), 1));
    }
    const auto ended = [&](SequenceId one) { return client_.look(one).ended; };
    while (!std::all_of(prompts.begin(), prompts.end(), ended)) {
      look(Clock::now());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    Clock::time_point end = begin;
    for (const SequenceId one : prompts) {
      end = std::max(end, client_.wait(one).tokens.back());
    }
    return kPrompts * kPromptTokens / seconds_between(begin, end);
  }

  static void add_gaps(const Answer& answer, Clock::time_point begin, Clock::time_point end,
                       std::vector<double>& gaps_ms) {
    for (size_t i = 1; i < answer.tokens.size(); ++i) {
      if (answer.tokens[i - 1] >= begin && answer.tokens[i] <= end) {
        gaps_ms.push_back(1e3 * seconds_between(answer.tokens[i - 1], answer.tokens[i]));
      }
    }
  }

  Client& client_;
  std::mt19937 random_;
};

// The figures of one kind of load: with streams, or with prompts and chats alone.
struct Figures {
  explicit Figures(const std::string& load)
      : chat_worst{.name = "slowest first token of a 20-token chat, " + load,
                   .unit = "ms",
                   .bar = Bar{.value = kChatFirstTokenMs}},
        chat_median{.name = "median first token of a 20-token chat, " + load, .unit = "ms"},
        gap{.name = "p99 gap of running streams, " + load,
            .unit = "ms",
            .bar = Bar{.value = kStreamGapMs}},
        part{.name = "prefill throughput against unmixed, " + load,
             .unit = "",
             .bar = Bar{.side = Bar::Side::at_least, .value = kPrefillPart}} {}

  void add(const Mixed& mixed, double unmixed_tokens_per_s) {
    if (!mixed.chat_ms.empty()) {
      chat_worst.values.push_back(quantile(mixed.chat_ms, 1.0));
      chat_median.values.push_back(quantile(mixed.chat_ms, 0.5));
    }
    if (!mixed.gaps_ms.empty()) {
      gap.values.push_back(quantile(mixed.gaps_ms, 0.99));
    }
    part.values.push_back(mixed.prefill_tokens_per_s / unmixed_tokens_per_s);
  }

  void move_to(Measurements& all) {
    for (Measurement* one : {&chat_worst, &chat_median, &gap, &part}) {
      if (!one->values.empty()) {
        all.push_back(std::move(*one));
      }
    }
  }

  Measurement chat_worst;
  Measurement chat_median;
  Measurement gap;
  Measurement part;
};

}  // namespace

Result<Measurements> mixed_load(const ScenarioOptions& options) {
  engine::EngineOptions engine;
  engine.model_path = options.model;
  engine.max_total_tokens = 65536;
  auto client = start_client(engine);
  if (!client) {
    return client.error();
  }
  Load load(**client, options.seed);
  load.unmixed();  // warms up
  Measurement unmixed{.name = "prefill alone, eight 3,000-token prompts", .unit = "tokens/s"};
  Figures with_streams(fmt::format("{} streams", kStreams));
  Figures without("no streams");
  for (int32_t i = 0; i < options.repetitions; ++i) {
    unmixed.values.push_back(load.unmixed());
    const Mixed mixed = load.mixed(kStreams);
    const Mixed chats = load.mixed(0);
    with_streams.add(mixed, unmixed.values.back());
    without.add(chats, unmixed.values.back());
    if (options.verbose) {
      fmt::print(stderr,
                 "mixed {}: alone {:.0f} tokens/s; streams {:.0f} tokens/s, chats {:.0f}, "
                 "gaps {:.0f} ms; no streams {:.0f} tokens/s, chats {:.0f} ms\n",
                 i + 1, unmixed.values.back(), mixed.prefill_tokens_per_s,
                 quantile(mixed.chat_ms, 1.0), quantile(mixed.gaps_ms, 0.99),
                 chats.prefill_tokens_per_s, quantile(chats.chat_ms, 1.0));
    }
  }
  Measurements all;
  with_streams.move_to(all);
  without.move_to(all);
  all.push_back(std::move(unmixed));
  return all;
}

}  // namespace pome::bench
