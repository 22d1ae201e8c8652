#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "pome/bench/target/prompt_tokens.h"

namespace pome::apps {

// One request of a benchmark: text, or token ids where the data set makes those.
struct DatasetRow {
  std::string text = {};
  std::vector<Token> tokens = {};
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  std::string shared_prefix = {};  // of generated-shared-prefix: what the warm-up sends

  bool operator==(const DatasetRow&) const = default;
};

struct DatasetOptions {
  std::string name = "sharegpt";  // or random, random-ids, generated-shared-prefix
  std::filesystem::path path = {};
  int32_t prompts = 1000;
  bool as_tokens = false;  // token ids also where the data set has text
  std::string suffix = {};
  uint64_t seed = 1;

  std::optional<int32_t> sharegpt_output_tokens = {};
  std::optional<int32_t> sharegpt_context_tokens = {};

  int32_t random_input_tokens = 1024;
  int32_t random_output_tokens = 1024;
  double random_range_ratio = 0.0;  // lengths are drawn from [ratio · N, N]

  int32_t groups = 64;
  int32_t prompts_per_group = 16;
  int32_t system_prompt_tokens = 2048;
  int32_t question_tokens = 128;
  int32_t group_output_tokens = 256;
  bool groups_in_order = false;
};

// The same rows for the same options and tokenizer.
Result<std::vector<DatasetRow>> make_dataset(const DatasetOptions& options,
                                             const PromptTokens& tokens);

// First question and first answer of each conversation in a file of ShareGPT's form.
struct Exchange {
  std::string question;
  std::string answer;
};
Result<std::vector<Exchange>> parse_sharegpt(std::string_view text);

// A whole number from `lowest` to `highest`, both included; equal on every machine.
int32_t draw(std::mt19937_64& random, int32_t lowest, int32_t highest);
// The time to the next arrival of a Poisson process.
double draw_gap(std::mt19937_64& random, double per_second);

}  // namespace pome::apps
