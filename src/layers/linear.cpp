#include "layers/linear.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "kernels/matmul/matmul.h"
#include "quant/quantized_ops.h"

namespace pome::layers {
namespace {

std::vector<quant::QuantizedModule> quantized_modules(std::span<const Projection> modules,
                                                      int32_t columns) {
  std::vector<quant::QuantizedModule> out;
  for (const Projection& module : modules) {
    out.push_back({module.weights, module.rows, columns});
  }
  return out;
}

// How many of the first modules can share one product.
size_t stackable(std::span<const Projection> modules, int32_t columns) {
  if (!quant::is_quantized(modules.front().weights)) {
    return 1;  // dense weights stay where the file has them
  }
  size_t count = 1;
  while (count < modules.size() && quant::is_quantized(modules[count].weights) &&
         quant::can_stack(quantized_modules(modules.first(count + 1), columns))) {
    ++count;
  }
  return count;
}

}  // namespace

Linear::Linear(const tensor::Weights& w, int32_t columns, int32_t rows, LinearOptions options)
    : Linear(std::array{Projection{w, rows}}, columns, options) {}

Linear::Linear(std::span<const Projection> modules, int32_t columns, LinearOptions options) {
  CHECK(!modules.empty(), "a product of nothing");
  while (!modules.empty()) {
    const size_t count = stackable(modules, columns);
    products_.push_back(read(modules.first(count), columns, options));
    modules = modules.subspan(count);
  }
}

Linear::Linear(std::variant<mx::array, quant::QuantizedWeight> weight) {
  products_.push_back({std::move(weight), std::nullopt});
}

mx::array Linear::operator()(const mx::array& x, const Forward&) const {
  if (products_.size() == 1) {
    return multiply(x, products_.front());
  }
  std::vector<mx::array> parts;
  for (const Product& product : products_) {
    parts.push_back(multiply(x, product));
  }
  return mx::concatenate(std::move(parts), 1);
}

mx::array Linear::gated(const mx::array& x, const Forward&,
                        kernels::GatedActivation activation) const {
  CHECK(products_.size() <= 2, "gated() is for a gate and an up module");
  const Product& first = products_.front();
  if (products_.size() == 2) {
    return kernels::gated(multiply(x, first), multiply(x, products_[1]), activation);
  }
  CHECK(!first.bias, "a gated product has no bias");
  return quant::quantized_gated_matmul(x, std::get<quant::QuantizedWeight>(first.weight),
                                       activation);
}

Linear::Product Linear::read(std::span<const Projection> modules, int32_t columns,
                             const LinearOptions& options) {
  std::optional<mx::array> bias;
  if (options.bias) {
    std::vector<mx::array> parts;
    for (const Projection& module : modules) {
      parts.push_back(module.weights.get("bias", {module.rows}));
    }
    bias = parts.size() == 1 ? parts.front() : mx::concatenate(std::move(parts), 0);
    bias->eval();  // while loading, so that no step starts with this work
  }
  const tensor::Weights& first = modules.front().weights;
  if (quant::is_quantized(first)) {
    return {quant::load_quantized(quantized_modules(modules, columns)), std::move(bias)};
  }
  CHECK(modules.size() == 1, "dense modules are products of their own");
  return {first.get_stored("weight", {modules.front().rows, columns}), std::move(bias)};
}

mx::array Linear::multiply(const mx::array& x, const Product& product) {
  if (const auto* quantized = std::get_if<quant::QuantizedWeight>(&product.weight)) {
    return quant::quantized_matmul(x, *quantized, product.bias);
  }
  return kernels::matmul_nt(x, std::get<mx::array>(product.weight), product.bias);
}

}  // namespace pome::layers
