#pragma once

#include "base/json.h"
#include "base/result.h"
#include "scheduler/step_plan.h"

namespace pome::scheduler {

// A plan as one JSON object, and back: from_json(to_json(plan)) describes the same step.
json::object to_json(const StepPlan& plan);
Result<StepPlan> step_plan_from_json(const json::value& value);

}  // namespace pome::scheduler
