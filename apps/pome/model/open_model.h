#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/api.h"
#include "hub/transfer/settings.h"
#include "pome/flags/settings.h"
#include "sampling/params.h"
#include "server/generation/served_text.h"
#include "telemetry/trace.h"

namespace pome::apps {

// A model that loads or serves: the engine, started, and its text side.
struct OpenModel {
  std::unique_ptr<engine::Engine> engine;
  server::ServedText text;
  sampling::Params sampling_defaults;
  std::string served_name;
  std::string path;
};

// What every reply calls the model.
std::string served_name_of(const Settings& settings);

// Finds the model (pulling it where it is missing), reads its tokenizer and templates and starts
// its engine; the weights may still be loading when this returns. `echo` needs no files. `stop`
// ends a pull; `trace` may be null and outlives the engine.
Result<OpenModel> open_model(const Settings& settings, const hub::Settings& hub,
                             const std::atomic<bool>& stop, telemetry::Trace* trace = nullptr);

// No model takes so long to load.
inline constexpr std::chrono::hours kLoadTimeout{24};

}  // namespace pome::apps
