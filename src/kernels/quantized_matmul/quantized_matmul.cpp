#include "kernels/quantized_matmul/quantized_matmul.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cpu_primitive.h"
#include "kernels/quantized_matmul/quantized_matmul_cpu.h"
#include "kernels/thread_pool.h"

namespace pome::kernels {
namespace {

class QuantizedMatmul : public CpuPrimitive {
 public:
  QuantizedMatmul(const QuantizedPanels& w, QuantizedProduct product)
      : storage_(w.shared()), product_(product) {}
  const char* name() const override { return "QuantizedMatmul"; }

  // Inputs: x [T, K], and the bias [N] if there is one.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    QuantizedProduct product = product_;
    product.w = storage_.get();
    product.rows = in[0].shape(0);
    product.x = rows<float>(in[0]);
    product.bias = in.size() > 1 ? rows<float>(in[1]) : nullptr;
    product.out = allocate<float>(out[0]);
    dispatch([product, keep = storage_] { run_quantized_product(product); });
  }

 private:
  std::shared_ptr<const PanelStorage> storage_;
  QuantizedProduct product_;
};

class QuantizedRows : public CpuPrimitive {
 public:
  explicit QuantizedRows(const QuantizedPanels& w) : storage_(w.shared()) {}
  const char* name() const override { return "QuantizedRows"; }

  // Inputs: ids [T] int32.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    const auto* ids = rows<int32_t>(in[0]);
    const int64_t count = in[0].size();
    auto* to = allocate<float>(out[0]);
    dispatch([s = storage_, ids, count, to] {
      parallel_for(count, 8, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          float* row = to + t * s->columns;
          if (ids[t] >= 0 && ids[t] < s->rows) {
            unpack_row(*s, ids[t], row);
          } else {
            std::fill(row, row + s->columns, 0.0f);
          }
        }
      });
    });
  }

 private:
  std::shared_ptr<const PanelStorage> storage_;
};

void check_x(const mx::array& x, const QuantizedPanels& w) {
  if (x.ndim() != 2 || x.shape(1) != w.columns()) {
    throw std::invalid_argument(
        fmt::format("[quantized_matmul] expected x [T, {}], got {} axes with {} in the last",
                    w.columns(), x.ndim(), x.ndim() > 0 ? x.shape(-1) : 0));
  }
}

mx::array as_float(const mx::array& x) {
  return x.dtype() == mx::float32 ? x : mx::astype(x, mx::float32);
}

mx::array product_of(const mx::array& x, const QuantizedPanels& w,
                     const std::optional<mx::array>& bias, int64_t columns,
                     QuantizedProduct product) {
  std::vector<mx::array> inputs{as_float(x)};
  if (bias) {
    inputs.push_back(as_float(*bias));
  }
  return mx::array({x.shape(0), static_cast<int>(columns)}, mx::float32,
                   std::make_shared<QuantizedMatmul>(w, product), std::move(inputs));
}

}  // namespace

mx::array quantized_matmul(const mx::array& x, const QuantizedPanels& w,
                           const std::optional<mx::array>& bias) {
  check_x(x, w);
  if (bias && (bias->ndim() != 1 || bias->shape(0) != w.rows())) {
    throw std::invalid_argument(
        fmt::format("[quantized_matmul] expected a bias of {} numbers", w.rows()));
  }
  if (!own_cpu_kernels()) {
    return reference::quantized_matmul(x, w, bias);
  }
  return product_of(x, w, bias, w.rows(), {});
}

mx::array quantized_gated_matmul(const mx::array& x, const QuantizedPanels& w,
                                 GatedActivation activation) {
  check_x(x, w);
  if (w.rows() % 2 != 0) {
    throw std::invalid_argument(fmt::format(
        "[quantized_gated_matmul] expected gate and up rows, got {} rows in all", w.rows()));
  }
  // Gate and up meet in the epilogue where both halves consist of whole panels.
  if (!own_cpu_kernels() || w.rows() / 2 % kPanelRows != 0) {
    return gated_split(quantized_matmul(x, w), activation);
  }
  return product_of(x, w, std::nullopt, w.rows() / 2, {.gated = true, .activation = activation});
}

mx::array quantized_rows(const mx::array& ids, const QuantizedPanels& w) {
  if (!own_cpu_kernels()) {
    return reference::quantized_rows(ids, w);
  }
  return mx::array({static_cast<int>(ids.size()), static_cast<int>(w.columns())}, mx::float32,
                   std::make_shared<QuantizedRows>(w), {ids});
}

}  // namespace pome::kernels
