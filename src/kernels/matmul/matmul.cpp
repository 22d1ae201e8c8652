#include "kernels/matmul/matmul.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cpu_primitive.h"
#include "kernels/matmul/matmul_cpu.h"

namespace pome::kernels {
namespace {

WeightType weight_type(const mx::array& w) {
  return w.dtype() == mx::float32 ? WeightType::f32
                                  : (w.dtype() == mx::float16 ? WeightType::f16 : WeightType::bf16);
}

class DenseMatmul : public CpuPrimitive {
 public:
  const char* name() const override { return "DenseMatmul"; }

  // Inputs: x, w, and the bias if there is one.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    DenseProduct product;
    product.x = rows<float>(in[0]);
    product.w = rows<char>(in[1]);
    product.bias = in.size() > 2 ? rows<float>(in[2]) : nullptr;
    product.type = weight_type(in[1]);
    product.tokens = in[0].shape(0);
    product.columns = in[0].shape(1);
    product.features = in[1].shape(0);
    product.out = allocate<float>(out[0]);
    dispatch([product] { run_dense_product(product); });
  }
};

class MatrixRows : public CpuPrimitive {
 public:
  const char* name() const override { return "MatrixRows"; }

  // Inputs: ids, w.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    const auto* ids = rows<int32_t>(in[0]);
    const auto* w = rows<char>(in[1]);
    auto* to = allocate<float>(out[0]);
    dispatch([=, type = weight_type(in[1]), count = in[0].size(), n = in[1].shape(0),
              k = in[1].shape(1)] { run_matrix_rows(w, type, n, k, ids, count, to); });
  }
};

void check_weight(const mx::array& w) {
  const mx::Dtype dtype = w.dtype();
  if (w.ndim() != 2 || (dtype != mx::float32 && dtype != mx::float16 && dtype != mx::bfloat16)) {
    throw std::invalid_argument("[matmul] expected weights [N, K] in f32, f16 or bf16");
  }
}

mx::array as_float(const mx::array& x) {
  return x.dtype() == mx::float32 ? x : mx::astype(x, mx::float32);
}

}  // namespace

mx::array matmul_nt(const mx::array& x, const mx::array& w, const std::optional<mx::array>& bias) {
  check_weight(w);
  if (x.ndim() != 2 || x.shape(1) != w.shape(1) ||
      (bias && (bias->ndim() != 1 || bias->shape(0) != w.shape(0)))) {
    throw std::invalid_argument(
        fmt::format("[matmul_nt] expected x [T, {}] and a bias of {}", w.shape(1), w.shape(0)));
  }
  if (!own_cpu_kernels()) {
    return reference::matmul_nt(x, w, bias);
  }
  std::vector<mx::array> inputs{as_float(x), w};
  if (bias) {
    inputs.push_back(as_float(*bias));
  }
  return mx::array({x.shape(0), w.shape(0)}, mx::float32, std::make_shared<DenseMatmul>(),
                   std::move(inputs));
}

mx::array matrix_rows(const mx::array& ids, const mx::array& w) {
  check_weight(w);
  if (!own_cpu_kernels()) {
    return reference::matrix_rows(ids, w);
  }
  return mx::array({static_cast<int>(ids.size()), w.shape(1)}, mx::float32,
                   std::make_shared<MatrixRows>(), {ids, w});
}

}  // namespace pome::kernels
