#include "pome/talk/answer_flags.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "hub/catalog.h"
#include "pome/host/environment.h"

namespace pome::apps {
namespace {

std::optional<double> number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(value) ? std::optional(value)
                                                               : std::nullopt;
}

// The option's number when it is given and in [lowest, highest]; with `whole`, an integer.
struct Bounds {
  double lowest = 0;
  double highest = 0;
  bool whole = false;
};

Result<std::optional<double>> bounded(const CommandLine& line, const std::string& name,
                                      Bounds bounds) {
  const auto text = line.extra(name);
  if (!text) {
    return std::optional<double>();
  }
  const auto value = number(*text);
  if (!value || *value < bounds.lowest || *value > bounds.highest ||
      (bounds.whole && *value != std::floor(*value))) {
    return invalid(fmt::format("--{}: expected a {}number from {} to {}, got '{}'", name,
                               bounds.whole ? "whole " : "", bounds.lowest, bounds.highest, *text));
  }
  return value;
}

}  // namespace

std::vector<ExtraOption> answer_options_list() {
  return {{"--max-tokens", "The longest answer. Default: what the context leaves.", true, "TOKENS"},
          {"--temperature", "0 always takes the likeliest token. Default: the model's.", true, "T"},
          {"--top-p", "Draws from the likeliest tokens that make up this part.", true, "P"},
          {"--seed", "Repeats an answer.", true, "SEED"}};
}

Result<AnswerOptions> answer_options(const CommandLine& line) {
  AnswerOptions options;
  const auto max_tokens = bounded(line, "max-tokens", {1, 1 << 24, true});
  const auto temperature = bounded(line, "temperature", {0, 2, false});
  const auto top_p = bounded(line, "top-p", {1e-6, 1, false});
  const auto seed = bounded(line, "seed", {0, 9007199254740992.0, true});
  for (const auto* result : {&max_tokens, &temperature, &top_p, &seed}) {
    if (!*result) {
      return result->error();
    }
  }
  const auto given = [](const Result<std::optional<double>>& result) { return result.value(); };
  if (const auto value = given(max_tokens)) {
    options.max_tokens = static_cast<int32_t>(*value);
  }
  if (const auto value = given(temperature)) {
    options.temperature = static_cast<float>(*value);
  }
  if (const auto value = given(top_p)) {
    options.top_p = static_cast<float>(*value);
  }
  if (const auto value = given(seed)) {
    options.seed = static_cast<uint64_t>(*value);
  }
  return options;
}

Status check_text(std::string_view text, std::string_view what) {
  if (const auto byte = first_invalid_byte(text)) {
    return invalid(fmt::format("{} is not UTF-8 text: byte {} is wrong", what, *byte));
  }
  return {};
}

GivenFlags with_default_model(GivenFlags flags) {
  bool named = environment("POME_MODEL_PATH") || environment("POME_CONFIG");
  for (const auto& [name, values] : flags) {
    named = named || name == "--model-path" || name == "--config";
  }
  if (!named) {
    flags.push_back({"--model-path", {hub::catalog().front().name}});
  }
  return flags;
}

}  // namespace pome::apps
