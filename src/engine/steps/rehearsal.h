#pragma once

#include <memory>

#include "engine/memory/work_samples.h"
#include "kvcache/cache_spec.h"
#include "kvcache/kv_format.h"
#include "models/language_model.h"

namespace pome::engine {

// Runs a few small steps with a pool of their own and reads MLX's peak memory: what the plan is
// made from, before the real pool is reserved. They also page the weights in and compile what is
// compiled. Rows sample with every filter and with log probabilities. `rows_max`: as many as there
// can ever be. Throws what a step throws.
WorkSamples rehearse(std::shared_ptr<const models::LanguageModel> model,
                     const kvcache::CacheSpec& spec, const kvcache::KvFormat& format,
                     int32_t rows_max);

}  // namespace pome::engine
