#include "layers/gated_mlp.h"

#include <array>

namespace pome::layers {
namespace {

Linear fused_gate_up(const tensor::Weights& w, int32_t hidden, int32_t intermediate) {
  const std::array modules = {Projection{w / "gate_proj", intermediate},
                              Projection{w / "up_proj", intermediate}};
  return Linear(modules, hidden);
}

}  // namespace

GatedMlp::GatedMlp(const tensor::Weights& w, int32_t hidden, int32_t intermediate,
                   Activation activation)
    : gate_up_proj_(fused_gate_up(w, hidden, intermediate)),
      down_proj_(w / "down_proj", intermediate, hidden),
      activation_(activation) {}

mx::array GatedMlp::operator()(const mx::array& x, const Forward& f) const {
  return down_proj_(gate_up_proj_.gated(x, f, activation_), f);
}

}  // namespace pome::layers
