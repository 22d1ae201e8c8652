// Gated activations on vectors, for the element-wise op and for the epilogue of the fused product.

#if defined(POME_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_ACTIVATION_INL_H_
#undef POME_KERNELS_ACTIVATION_INL_H_
#else
#define POME_KERNELS_ACTIVATION_INL_H_
#endif

#include "kernels/activation/activation.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// activation(gate) * up. Both are gate / (1 + exp(-z)) * up: z = gate for silu; for gelu, (1 +
// tanh(y)) / 2 is 1 / (1 + exp(-2 y)).
template <class D>
HWY_INLINE hn::Vec<D> gated_lanes(D d, hn::Vec<D> gate, hn::Vec<D> up, GatedActivation activation) {
  auto z = gate;
  if (activation == GatedActivation::gelu_tanh) {
    const auto cube = hn::Mul(hn::Mul(gate, gate), gate);
    z = hn::Mul(hn::Set(d, 1.5957691216f), hn::MulAdd(hn::Set(d, 0.044715f), cube, gate));
  }
  const auto one = hn::Set(d, 1.0f);
  const auto sigmoid = hn::Div(gate, hn::Add(one, fast_exp(d, hn::Neg(z))));
  return hn::Mul(sigmoid, up);
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_ACTIVATION_INL_H_
