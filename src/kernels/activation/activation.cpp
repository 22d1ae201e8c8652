#include "kernels/activation/activation.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "kernels/activation/activation_cpu.h"
#include "kernels/backend.h"
#include "kernels/cpu_primitive.h"

namespace pome::kernels {
namespace {

class Gated : public CpuPrimitive {
 public:
  explicit Gated(GatedActivation activation) : activation_(activation) {}
  const char* name() const override { return "Gated"; }

  // Inputs: gate and up of one shape, or one array of gates then ups in the last axis.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    const int64_t features = out[0].shape(-1);
    const int64_t count = features > 0 ? out[0].size() / features : 0;
    const bool fused = in.size() == 1;
    const auto* gate = rows<float>(in[0]);
    const auto* up = fused ? gate + features : rows<float>(in[1]);
    auto* to = allocate<float>(out[0]);
    const int64_t stride = fused ? 2 * features : features;
    dispatch([=, activation = activation_] {
      run_gated(gate, up, stride, count, features, activation, to);
    });
  }

 private:
  GatedActivation activation_;
};

}  // namespace

mx::array silu_mul(const mx::array& gate, const mx::array& up) {
  return gated(gate, up, GatedActivation::silu);
}

mx::array gelu_tanh_mul(const mx::array& gate, const mx::array& up) {
  return gated(gate, up, GatedActivation::gelu_tanh);
}

mx::array gated(const mx::array& gate, const mx::array& up, GatedActivation activation) {
  if (gate.shape() != up.shape()) {
    throw std::invalid_argument("[gated] expected gate and up of one shape");
  }
  if (!own_cpu_kernels() || gate.dtype() != mx::float32 || up.dtype() != mx::float32) {
    return reference::gated(gate, up, activation);
  }
  return mx::array(gate.shape(), mx::float32, std::make_shared<Gated>(activation), {gate, up});
}

mx::array gated_split(const mx::array& gate_up, GatedActivation activation) {
  if (gate_up.ndim() == 0 || gate_up.shape(-1) % 2 != 0) {
    throw std::invalid_argument("[gated_split] expected an even last axis");
  }
  if (!own_cpu_kernels() || gate_up.dtype() != mx::float32) {
    return reference::gated_split(gate_up, activation);
  }
  mx::Shape shape = gate_up.shape();
  shape.back() /= 2;
  return mx::array(shape, mx::float32, std::make_shared<Gated>(activation), {gate_up});
}

}  // namespace pome::kernels
