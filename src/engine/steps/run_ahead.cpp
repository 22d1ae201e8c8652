#include "engine/steps/run_ahead.h"

#include <mlx/scheduler.h>

#include "tensor/mlx.h"

namespace pome::engine {
namespace {

// Taken off the count for the time being: 2,560 operations more than otherwise.
constexpr int kTasks = 256;

}  // namespace

RunAhead::RunAhead(bool wanted) : wanted_(wanted) {
  const mx::Stream stream = mx::default_stream(mx::Device::cpu);
  for (int i = 0; wanted_ && i < kTasks; ++i) {
    mx::scheduler::notify_task_completion(stream);
  }
}

RunAhead::~RunAhead() {
  const mx::Stream stream = mx::default_stream(mx::Device::cpu);
  for (int i = 0; wanted_ && i < kTasks; ++i) {
    mx::scheduler::notify_new_task(stream);
  }
}

}  // namespace pome::engine
