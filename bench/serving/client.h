#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "engine/llm_engine.h"
#include "pome/bench/load/engine_client.h"
#include "pome/bench/load/statistics.h"

namespace pome::bench {

using Answer = apps::EngineAnswer;
using apps::Clock;
using apps::made_up_prompt;
using apps::quantile;
using apps::seconds_between;
using Client = apps::EngineClient;

// Loads a model and waits until it is ready.
inline Result<std::unique_ptr<Client>> start_client(const engine::EngineOptions& options) {
  return Client::start(std::make_unique<engine::LlmEngine>(options));
}

}  // namespace pome::bench
