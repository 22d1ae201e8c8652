// Times a model without server or engine: prefill of P tokens in each of B sequences, then N greedy
// decode steps, with one step in flight where own kernels append. Prints text or one JSON object.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>

#include "base/json.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "models/llm/load_model.h"
#include "models/sequences/greedy_batch.h"
#include "random_checkpoint.h"
#include "support/agreement.h"

namespace pome::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string model;
  std::string shape;
  int32_t prompt = 128;
  int32_t decode = 64;
  int32_t batch = 1;
  int32_t chunk = 512;
  int32_t threads = 0;
  kvcache::KvFormat kv_format = {};
  bool kl = false;
  bool json = false;
  bool nodes = false;
  bool plain = false;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Pages of memory that the process had at its largest.
double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
#else
  return static_cast<double>(usage.ru_maxrss) / (1 << 10);
#endif
}

// The same tokens at each run, spread over the vocabulary.
std::vector<Token> prompt_tokens(int32_t count, int32_t sequence, int32_t vocab) {
  std::vector<Token> tokens;
  uint32_t state = 12345u + static_cast<uint32_t>(sequence);
  for (int32_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<Token>((state >> 8) % static_cast<uint32_t>(vocab)));
  }
  return tokens;
}

struct Times {
  double prefill_s = 0.0;
  double decode_s = 0.0;
  models::GraphNodes decode_nodes;
};

class Run {
 public:
  Run(const models::LanguageModel& model, const Arguments& arguments)
      : model_(model),
        arguments_(arguments),
        batch_(model, {.sequences = arguments.batch,
                       .tokens_max = arguments.prompt + arguments.decode + 1,
                       .chunk_tokens = arguments.chunk,
                       .format = arguments.kv_format}) {}

  Times run() {
    Times times;
    const Clock::time_point start = Clock::now();
    mx::array next = models::GreedyBatch::choose(batch_.prefill(prompts()));
    next.eval();
    times.prefill_s = seconds_since(start);
    const Clock::time_point decode_start = Clock::now();
    std::optional<mx::array> in_flight;
    for (int32_t n = 0; n < arguments_.decode; ++n) {
      next = batch_.decode(next, n == 0 ? &times.decode_nodes : nullptr);
      if (!kernels::own_cpu_kernels()) {
        next.wait();  // plain appends reuse the pages only when no step in flight holds them
      } else if (in_flight) {
        in_flight->wait();
      }
      in_flight = next;
    }
    next.wait();
    times.decode_s = seconds_since(decode_start);
    return times;
  }

 private:
  std::vector<std::vector<Token>> prompts() const {
    std::vector<std::vector<Token>> all;
    for (int32_t s = 0; s < arguments_.batch; ++s) {
      all.push_back(prompt_tokens(arguments_.prompt, s, model_.info().vocab_tokens));
    }
    return all;
  }

  const models::LanguageModel& model_;
  const Arguments& arguments_;
  models::GreedyBatch batch_;
};

json::object time_model(const models::LanguageModel& model, const Arguments& arguments) {
  Run(model, arguments).run();  // warm-up: caches, page faults, the clock of the processor
  const Times times = Run(model, arguments).run();
  json::object out;
  const double tokens = arguments.batch;
  out["prefill_tokens_per_s"] = tokens * arguments.prompt / times.prefill_s;
  if (arguments.decode > 0) {
    out["decode_tokens_per_s"] = tokens * arguments.decode / times.decode_s;
    out["decode_step_ms"] = 1e3 * times.decode_s / arguments.decode;
    out["decode_nodes"] = times.decode_nodes.total;
    if (arguments.nodes) {
      json::object names;
      for (const auto& [name, count] : times.decode_nodes.by_name) {
        names[name] = count;
      }
      out["decode_nodes_by_name"] = std::move(names);
    }
  }
  return out;
}

Result<json::object> agreement(const models::LanguageModel& model, const Arguments& arguments) {
  const Result<test::AgreementReference> reference =
      test::AgreementReference::open(test::agreement_file(arguments.model));
  if (!reference) {
    return reference.error();
  }
  const test::Agreement found =
      test::measure_agreement(model, *reference, arguments.chunk, arguments.kv_format);
  return json::object{
      {"mean_kl", found.mean_kl}, {"top1_agreement", found.top1}, {"positions", found.positions}};
}

void print(const json::object& out, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", to_string(out));
    return;
  }
  for (const auto& member : out) {
    fmt::print("{:<24}{}\n", std::string_view(member.key()), to_string(member.value()));
  }
}

int refuse(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  return 1;
}

int run(Arguments arguments) {
  if (arguments.threads > 0) {
    kernels::set_thread_count(arguments.threads);
  }
  kernels::set_own_kernels_enabled(!arguments.plain);
  std::unique_ptr<RandomCheckpoint> random;
  if (!arguments.shape.empty()) {
    Result<std::unique_ptr<RandomCheckpoint>> made = RandomCheckpoint::make(arguments.shape);
    if (!made) {
      return refuse(made.error());
    }
    random = std::move(*made);
    arguments.model = random->folder().string();
  }
  const Clock::time_point start = Clock::now();
  const Result<std::unique_ptr<models::LanguageModel>> model = models::load_model(arguments.model);
  if (!model) {
    return refuse(model.error());
  }
  const double load_s = seconds_since(start);
  json::object out;
  if (arguments.kl) {
    const Result<json::object> found = agreement(**model, arguments);
    if (!found) {
      return refuse(found.error());
    }
    out = *found;
  } else {
    out = time_model(**model, arguments);
  }
  out["load_s"] = load_s;
  out["peak_mib"] = peak_mib();
  print(out, arguments.json);
  return 0;
}

}  // namespace
}  // namespace pome::bench

int main(int argc, char** argv) {
  using pome::kvcache::KvElement;
  pome::bench::Arguments arguments;
  CLI::App app("Prefill and decode of one model, timed without a server.");
  CLI::Option* model = app.add_option("--model", arguments.model, "An HF folder or a GGUF file");
  app.add_option("--shape", arguments.shape, "Random bfloat16 weights of this shape instead")
      ->check(CLI::IsMember(pome::bench::RandomCheckpoint::shapes()))
      ->excludes(model);
  app.add_option("--prompt", arguments.prompt, "Tokens of each prompt")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--decode", arguments.decode, "Decode steps")->check(CLI::Range(0, 1 << 20));
  app.add_option("--batch", arguments.batch, "Sequences")->check(CLI::Range(1, 1024));
  app.add_option("--chunk", arguments.chunk, "Most prompt tokens in a step")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", arguments.threads, "Threads of the CPU kernels")
      ->check(CLI::Range(1, 256));
  app.add_option("--kv-cache-dtype", arguments.kv_format.element, "How keys and values are stored")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, KvElement>{{"float16", KvElement::float16},
                                           {"bfloat16", KvElement::bfloat16},
                                           {"float32", KvElement::float32},
                                           {"int8", KvElement::int8},
                                           {"int4", KvElement::int4}}));
  app.add_option("--kv-cache-group-size", arguments.kv_format.group_size,
                 "Numbers that share a scale in an int8 or int4 cache")
      ->check(CLI::IsMember({32, 64, 128}));
  app.add_flag("--kl", arguments.kl, "Compare with the reference's float32 run instead of timing");
  app.add_flag("--json", arguments.json, "Print one JSON object");
  app.add_flag("--nodes", arguments.nodes, "List the operations of a decode step");
  app.add_flag("--disable-own-kernels", arguments.plain, "Plain MLX operations");
  CLI11_PARSE(app, argc, argv);
  if (arguments.model.empty() && arguments.shape.empty()) {
    return app.exit(CLI::RequiredError("--model or --shape"));
  }
  return pome::bench::run(arguments);
}
