#include "kernels/norm/norm.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cpu_primitive.h"
#include "kernels/norm/norm_cpu.h"

namespace pome::kernels {
namespace {

class RmsNorm : public CpuPrimitive {
 public:
  explicit RmsNorm(float eps) : eps_(eps) {}
  const char* name() const override { return "RmsNorm"; }

  // Inputs: x, w, and the residual if there is one. Outputs: normed, or sum and normed.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    NormRows norm;
    norm.x = rows<float>(in[0]);
    norm.w = rows<float>(in[1]);
    norm.dim = in[0].shape(-1);
    norm.rows = norm.dim > 0 ? in[0].size() / norm.dim : 0;
    norm.eps = eps_;
    if (in.size() > 2) {
      norm.residual = rows<float>(in[2]);
      norm.sum = allocate<float>(out[0]);
    }
    norm.normed = allocate<float>(out.back());
    dispatch([norm] { run_norm(norm); });
  }

 private:
  float eps_;
};

void check_norm(const mx::array& x, const mx::array& w) {
  if (x.ndim() == 0 || w.ndim() != 1 || x.shape(-1) != w.shape(0)) {
    throw std::invalid_argument(
        fmt::format("[rms_norm] expected a weight for each element of the last axis, got {} for {}",
                    w.size(), x.ndim() > 0 ? x.shape(-1) : 0));
  }
}

bool all_float(const mx::array& x, const mx::array& w) {
  return x.dtype() == mx::float32 && w.dtype() == mx::float32;
}

}  // namespace

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps) {
  check_norm(x, w);
  if (!own_cpu_kernels() || !all_float(x, w)) {
    return reference::rms_norm(x, w, eps);
  }
  return mx::array(x.shape(), mx::float32, std::make_shared<RmsNorm>(eps), {x, w});
}

SumAndNorm add_rms_norm(const mx::array& x, const mx::array& residual, const mx::array& w,
                        float eps) {
  check_norm(x, w);
  if (x.shape() != residual.shape()) {
    throw std::invalid_argument("[add_rms_norm] expected x and residual of one shape");
  }
  if (!own_cpu_kernels() || !all_float(x, w) || residual.dtype() != mx::float32) {
    return reference::add_rms_norm(x, residual, w, eps);
  }
  const auto outputs = mx::array::make_arrays({x.shape(), x.shape()}, {mx::float32, mx::float32},
                                              std::make_shared<RmsNorm>(eps), {x, w, residual});
  return {outputs[0], outputs[1]};
}

}  // namespace pome::kernels
