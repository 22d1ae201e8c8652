#pragma once

#include <mlx/backend/cpu/encoder.h>
#include <mlx/mlx.h>
#include <mlx/primitives.h>

#include <utility>
#include <vector>

#include "tensor/mlx.h"

// What the own CPU primitives share: allocation, inputs in row-major order, dispatch on the
// stream's thread.
namespace pome::kernels {

class CpuPrimitive : public mx::Primitive {
 public:
  CpuPrimitive();
  void eval_gpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) final;

 protected:
  // Gives `out` its own memory and returns it.
  template <typename T>
  T* allocate(mx::array& out) {
    out.set_data(mx::allocator::malloc(out.nbytes()));
    return out.data<T>();
  }

  // Pointer to the elements of `in` in row-major order. Inputs are allocated but not computed while
  // eval_cpu runs: where the strides are not row-major, a copy is queued before the work that uses
  // the pointer.
  template <typename T>
  const T* rows(const mx::array& in) {
    return static_cast<const T*>(row_major_pointer(in));
  }

  // Queues work on the stream. The lambda captures raw pointers; MLX keeps inputs and outputs alive
  // until it ran.
  template <typename Work>
  void dispatch(Work&& work) {
    mx::cpu::get_command_encoder(stream()).dispatch(std::forward<Work>(work));
  }

 private:
  const void* row_major_pointer(const mx::array& in);
};

}  // namespace pome::kernels
