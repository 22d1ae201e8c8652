#include "pome/model/model_defaults.h"

#include <fmt/format.h>

#include "hub/catalog.h"
#include "hub/pull.h"
#include "pome/host/environment.h"
#include "tensor/checkpoint/hf_config.h"

namespace pome::apps {
namespace {

template <typename T>
void take(SamplingDefaults& defaults, const std::string& name, T& target,
          const std::optional<T>& recommended) {
  const bool given = recommended.has_value();
  target = recommended.value_or(target);
  defaults.items.push_back({name, fmt::format("{}", target), given ? "model" : "default"});
}

// A small model that is sampled at OpenAI's temperature of 1 rambles, and its GGUF file cannot say
// otherwise.
void add_catalog_defaults(const tensor::Checkpoint& checkpoint,
                          tensor::GenerationDefaults& recommended) {
  const hub::CatalogModel* known = hub::find_file_in_catalog(
      checkpoint.path().filename().string(), static_cast<int64_t>(checkpoint.file_bytes()));
  if (known == nullptr) {
    return;
  }
  if (!recommended.temperature) {
    recommended.temperature = known->temperature;
  }
  if (!recommended.top_p) {
    recommended.top_p = known->top_p;
  }
}

}  // namespace

Result<SamplingDefaults> sampling_defaults(const Settings& settings,
                                           const tensor::Checkpoint* checkpoint) {
  tensor::GenerationDefaults recommended;
  if (checkpoint && settings.text("--sampling-defaults") == "model") {
    auto read = tensor::read_generation_defaults(*checkpoint);
    if (!read) {
      return read.error();
    }
    recommended = std::move(read).value();
    // A model that is to be decoded greedily says so with do_sample alone.
    if (recommended.do_sample == false && !recommended.temperature) {
      recommended.temperature = 0.0f;
    }
    add_catalog_defaults(*checkpoint, recommended);
  }
  SamplingDefaults defaults;
  take(defaults, "temperature", defaults.params.temperature, recommended.temperature);
  take(defaults, "top_p", defaults.params.top_p, recommended.top_p);
  take(defaults, "top_k", defaults.params.top_k, recommended.top_k);
  take(defaults, "min_p", defaults.params.min_p, recommended.min_p);
  take(defaults, "repetition_penalty", defaults.params.repetition_penalty,
       recommended.repetition_penalty);
  return defaults;
}

std::vector<SamplingDefault> sampling_defaults_of(const Settings& settings) {
  const auto local = hub::find_local(hub::settings_from(environment),
                                     {settings.text("--model-path"), settings.text("--revision")});
  if (local) {
    if (auto checkpoint = tensor::Checkpoint::open(local->path)) {
      if (auto defaults = sampling_defaults(settings, &checkpoint.value())) {
        return defaults->items;
      }
    }
  }
  return sampling_defaults(settings, nullptr)->items;
}

GivenFlags with_model(const CommandLine& line) {
  GivenFlags flags = line.flags;
  if (!line.positionals.empty()) {
    flags.insert(flags.begin(), {"--model-path", {line.positionals.front()}});
  }
  return flags;
}

}  // namespace pome::apps
