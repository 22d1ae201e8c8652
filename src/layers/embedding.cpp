#include "layers/embedding.h"

#include "kernels/matmul/matmul.h"
#include "quant/quantized_ops.h"

namespace pome::layers {
namespace {

std::variant<mx::array, quant::QuantizedWeight> read(const tensor::Weights& w, int32_t vocab,
                                                     int32_t hidden) {
  if (quant::is_quantized(w)) {
    return quant::load_quantized(quant::QuantizedModule{w, vocab, hidden});
  }
  return w.get_stored("weight", {vocab, hidden});
}

}  // namespace

Embedding::Embedding(const tensor::Weights& w, int32_t vocab, int32_t hidden)
    : weight_(read(w, vocab, hidden)) {}

mx::array Embedding::operator()(const mx::array& tokens, const Forward&) const {
  if (const auto* quantized = std::get_if<quant::QuantizedWeight>(&weight_)) {
    return quant::quantized_rows(tokens, *quantized);
  }
  return kernels::matrix_rows(tokens, std::get<mx::array>(weight_));
}

Linear Embedding::tied_head() const {
  return Linear(weight_);
}

}  // namespace pome::layers
