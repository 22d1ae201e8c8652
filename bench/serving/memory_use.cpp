#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cmath>
#include <deque>
#include <random>

#include "client.h"
#include "engine/memory/available_memory.h"
#include "scenarios.h"

namespace pome::bench {
namespace {

constexpr double kPartMax = 2.0;  // percent

double part_off(double now, double before) {
  return 100.0 * std::abs(now - before) / before;
}

Measurement percent(std::string name) {
  return {.name = std::move(name), .unit = "% off", .bar = Bar{.value = kPartMax}};
}

// ---- bytes of a cached token

constexpr int32_t kPromptTokens = 2000;
constexpr int32_t kPromptsWarm = 3;  // working memory is as large as it gets
constexpr int32_t kPrompts = 12;

int64_t planned_bytes_per_token(const Client& client) {
  const engine::EngineDetails details = client.details();
  const json::object* memory = find_object(details.more, "memory");
  return memory != nullptr ? find_int(*memory, "kv_bytes_per_token").value_or(0) : 0;
}

Result<Measurements> bytes_per_token(const ScenarioOptions& options) {
  engine::EngineOptions engine;
  engine.model_path = options.model;
  engine.max_total_tokens = (kPromptsWarm + kPrompts + 1) * kPromptTokens;
  auto started = start_client(engine);
  if (!started) {
    return started.error();
  }
  Client& client = **started;
  uint32_t variant = options.seed;
  const auto read_prompts = [&](int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      client.wait(
          client.send(made_up_prompt(kPromptTokens, ++variant, client.model().vocab_tokens), 1));
    }
  };
  read_prompts(kPromptsWarm);
  const int64_t tokens_before = client.stats().kv_tokens_cached;
  const int64_t bytes_before = engine::occupied_memory_bytes();
  read_prompts(kPrompts);
  const auto tokens = static_cast<double>(client.stats().kv_tokens_cached - tokens_before);
  const double bytes = static_cast<double>(engine::occupied_memory_bytes() - bytes_before) / tokens;
  const auto planned = static_cast<double>(planned_bytes_per_token(client));
  Measurement off = percent("resident bytes per cached token against the arithmetic");
  off.values = {part_off(bytes, planned)};
  return Measurements{
      std::move(off),
      {.name = "resident bytes per cached token", .unit = "bytes", .values = {bytes}},
      {.name = "the plan's bytes per cached token", .unit = "bytes", .values = {planned}}};
}

// ---- requests of random shape

constexpr int32_t kTinyPoolTokens = 4096;
constexpr int32_t kTinyContextTokens = 240;
constexpr int32_t kUnderWay = 48;          // sent and not ended
constexpr int32_t kRequestsWarm = 5000;    // the pool is full of prefixes
constexpr int32_t kRequestsLooked = 2500;  // whose memory counts, before and after …
constexpr int32_t kRequestsALook = 125;    // … as the median of looks so many requests apart

// Of what was allocated, without the allocator's own spare room; 0 where that is not known.
double heap_bytes() {
#ifdef __GLIBC__
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
#else
  return 0.0;
#endif
}

// Prompts of all lengths, half of them with a beginning that others have too, and one in ten is
// cut short.
class RandomRequests {
 public:
  RandomRequests(Client& client, uint32_t seed) : client_(client), random_(seed) {
    for (uint32_t i = 0; i < 40; ++i) {
      beginnings_.push_back(made_up_prompt(pick(1, 150), seed + i, client.model().vocab_tokens));
    }
  }

  void run(int32_t requests) {
    for (int32_t i = 0; i < requests; ++i) {
      if (under_way_.size() == kUnderWay) {
        client_.wait(under_way_.front());
        under_way_.pop_front();
      }
      std::vector<Token> prompt = made_up_prompt(pick(1, 80), static_cast<uint32_t>(random_()),
                                                 client_.model().vocab_tokens);
      if (pick(0, 1) == 0) {
        const std::vector<Token>& beginning =
            beginnings_[static_cast<size_t>(pick(0, static_cast<int32_t>(beginnings_.size()) - 1))];
        prompt.insert(prompt.begin(), beginning.begin(), beginning.end());
      }
      const auto room = kTinyContextTokens - static_cast<int32_t>(prompt.size());
      under_way_.push_back(client_.send(std::move(prompt), pick(1, std::min(room, 40))));
      if (pick(0, 9) == 0) {
        client_.cancel(under_way_[under_way_.size() / 2]);
      }
    }
    while (!under_way_.empty()) {
      client_.wait(under_way_.front());
      under_way_.pop_front();
    }
  }

 private:
  int32_t pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }

  Client& client_;
  std::mt19937 random_;
  std::vector<std::vector<Token>> beginnings_;
  std::deque<SequenceId> under_way_;
};

// What is resident at one moment depends on what is under way at that moment.
double resident_bytes(RandomRequests& requests) {
  std::vector<double> looks;
  for (int32_t done = 0; done < kRequestsLooked; done += kRequestsALook) {
    requests.run(kRequestsALook);
    looks.push_back(static_cast<double>(engine::occupied_memory_bytes()));
  }
  return quantile(std::move(looks), 0.5);
}

Status random_requests(const ScenarioOptions& options, const std::string& tiny, Measurements& all) {
  engine::EngineOptions engine;
  engine.model_path = options.tiny_models / tiny;
  engine.max_total_tokens = kTinyPoolTokens;
  auto started = start_client(engine);
  if (!started) {
    return started.error();
  }
  RandomRequests requests(**started, options.seed);
  requests.run(kRequestsWarm);
  const double resident_before = resident_bytes(requests);
  const double heap_before = heap_bytes();
  requests.run(options.requests);
  const double resident = resident_bytes(requests);
  all.push_back(percent(fmt::format("resident memory after {} requests of random shape, tiny {}",
                                    options.requests, tiny)));
  all.back().values = {part_off(resident, resident_before)};
  all.push_back({.name = "resident memory before them",
                 .unit = "MiB",
                 .values = {resident_before / (1 << 20)}});
  all.push_back(
      {.name = "resident memory after them", .unit = "MiB", .values = {resident / (1 << 20)}});
  if (heap_before > 0.0) {
    all.push_back({.name = "bytes allocated on the heap, after minus before",
                   .unit = "KiB",
                   .values = {(heap_bytes() - heap_before) / 1024}});
  }
  return {};
}

}  // namespace

Result<Measurements> memory_use(const ScenarioOptions& options) {
  Measurements all;
  for (const char* tiny : {"qwen3", "gemma3"}) {
    POME_TRY(random_requests(options, tiny, all));
  }
  auto cached = bytes_per_token(options);
  if (!cached) {
    return cached.error();
  }
  all.insert(all.end(), cached->begin(), cached->end());
  return all;
}

}  // namespace pome::bench
