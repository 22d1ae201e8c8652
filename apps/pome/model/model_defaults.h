#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "pome/flags/command_line.h"
#include "pome/flags/settings.h"
#include "sampling/params.h"
#include "tensor/checkpoint/checkpoint.h"

namespace pome::apps {

// One effective sampling default and where it comes from, for `show-config`.
struct SamplingDefault {
  std::string name;
  std::string value;
  std::string origin;
};

// What a request gets that names no sampling parameters: with --sampling-defaults model what the
// checkpoint's authors recommend, over OpenAI's constants.
struct SamplingDefaults {
  sampling::Params params;
  std::vector<SamplingDefault> items;
};

// `checkpoint` may be null: the constants alone.
Result<SamplingDefaults> sampling_defaults(const Settings& settings,
                                           const tensor::Checkpoint* checkpoint);

// For a model that is here already; a model that is not, or cannot be read, gives the constants.
std::vector<SamplingDefault> sampling_defaults_of(const Settings& settings);

// The flags of a command line whose first plain word is the model: `pome chat smollm2`.
GivenFlags with_model(const CommandLine& line);

}  // namespace pome::apps
