#include "engine/steps/run_ahead.h"

#include <gtest/gtest.h>
#include <mlx/scheduler.h>

#include <future>

#include "kernels/cpu_primitive.h"

namespace pome::engine {
namespace {

// Keeps the stream's thread until the promise is kept.
class Wait : public kernels::CpuPrimitive {
 public:
  explicit Wait(std::shared_future<void> until) : until_(std::move(until)) {}
  const char* name() const override { return "Wait"; }
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    const auto* from = rows<float>(in[0]);
    auto* to = allocate<float>(out[0]);
    dispatch([from, to, until = until_] {
      until.wait();
      *to = *from + 1.0f;
    });
  }

 private:
  std::shared_future<void> until_;
};

mx::array waits(const mx::array& x, const std::shared_future<void>& until) {
  return mx::array(x.shape(), x.dtype(), std::make_shared<Wait>(until), {x});
}

TEST(RunAhead, QueuesAWholeStepBehindOneThatRuns) {
  std::promise<void> promise;
  const std::shared_future<void> until = promise.get_future().share();
  const int before = mx::scheduler::n_active_tasks();
  mx::array x = waits(mx::array({1.0f}), until);
  for (int i = 0; i < 400; ++i) {
    x = waits(x, until);
  }
  {
    const RunAhead ahead;
    mx::async_eval(x);  // without it, this would not come back before the promise is kept
  }
  EXPECT_FALSE(x.is_available());
  EXPECT_GT(mx::scheduler::n_active_tasks(), before + 10);
  promise.set_value();
  x.eval();
  EXPECT_EQ(x.item<float>(), 402.0f);
  mx::synchronize(mx::default_stream(mx::Device::cpu));
  EXPECT_EQ(mx::scheduler::n_active_tasks(), before);
}

TEST(RunAhead, LeavesTheCountAsItWas) {
  const int before = mx::scheduler::n_active_tasks();
  {
    const RunAhead ahead;
    EXPECT_LT(mx::scheduler::n_active_tasks(), before - 100);
  }
  EXPECT_EQ(mx::scheduler::n_active_tasks(), before);
}

}  // namespace
}  // namespace pome::engine
