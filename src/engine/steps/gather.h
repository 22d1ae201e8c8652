#pragma once

#include <optional>

#include "kvcache/cache_spec.h"
#include "layers/forward.h"
#include "scheduler/step_plan.h"
#include "tensor/mlx.h"

namespace pome::engine {

// A plan's integers as the device arrays of one ragged step. `sampled_before` are the tokens [R']
// of the step in flight, for rows that take their input from it. Rows with embedding spans are a
// bug here: no model takes them yet.
layers::Forward gather(const scheduler::StepPlan& plan, const kvcache::CacheSpec& spec,
                       kvpool::KvPool* pool,
                       const std::optional<mx::array>& sampled_before = std::nullopt);

}  // namespace pome::engine
