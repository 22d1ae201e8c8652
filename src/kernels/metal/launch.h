#pragma once

#include <mlx/primitives.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/mlx.h"

namespace mlx::core::metal {
class CommandEncoder;
}

// What own primitives need of MLX's Metal back end, in a header without Metal's own: recording one
// kernel on the encoder of a stream. Only on_metal/launch.cpp sees MLX's classes.
namespace pome::kernels::metal {

// Whether this program can record Metal kernels: MLX was built with Metal and a GPU is there.
bool available();

// A kernel of a text in Metal's shading language. The text is compiled once a process, at first
// use, with IEEE arithmetic.
struct Kernel {
  std::string library;  // names the text
  std::string_view text;
  std::string name;  // its host_name
};

// One dispatch, recorded in eval_gpu(). Throws std::runtime_error with the compiler's message when
// the text does not compile, and where Metal is not available.
class Launch {
 public:
  Launch(const mx::Stream& stream, const Kernel& kernel);

  // Arrays must have their buffers. What is written must be an output: that orders later readers,
  // and later writers of the same buffer, after this kernel.
  void input(const mx::array& array, int index);
  void output(mx::array& array, int index);
  template <typename T>
  void constant(const T& value, int index) {
    bytes(&value, sizeof(value), index);
  }
  // Memory that a thread group shares.
  void shared(size_t bytes, int index);

  using Extent = std::array<size_t, 3>;
  // All indices are set before.
  void dispatch(const Extent& groups, const Extent& threads_of_group);

 private:
  void bytes(const void* data, size_t size, int index);

  mlx::core::metal::CommandEncoder* encoder_ = nullptr;
};

// An own primitive with a GPU body only.
class GpuPrimitive : public mx::Primitive {
 public:
  GpuPrimitive();
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) final;
};

}  // namespace pome::kernels::metal
