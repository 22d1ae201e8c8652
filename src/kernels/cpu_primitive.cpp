#include "kernels/cpu_primitive.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace pome::kernels {
namespace {

// Copies a strided array into row-major order: whole runs of the last axis where it has stride 1.
void copy_to_row_major(const char* from, char* to, const mx::Shape& shape,
                       const mx::Strides& strides, size_t item) {
  const int axes = static_cast<int>(shape.size());
  const int64_t run = strides[axes - 1] == 1 ? shape[axes - 1] : 1;
  const int outer_axes = run == 1 ? axes : axes - 1;
  std::vector<int64_t> index(shape.size(), 0);
  int64_t offset = 0;
  for (;;) {
    std::memcpy(to, from + offset * static_cast<int64_t>(item), run * item);
    to += run * item;
    int axis = outer_axes - 1;
    for (; axis >= 0; --axis) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) {
        break;
      }
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
    if (axis < 0) {
      return;
    }
  }
}

}  // namespace

CpuPrimitive::CpuPrimitive() : mx::Primitive(mx::default_stream(mx::Device::cpu)) {}

void CpuPrimitive::eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) {
  throw std::runtime_error(std::string("[") + name() + "] runs on a CPU stream only");
}

const void* CpuPrimitive::row_major_pointer(const mx::array& in) {
  if (in.flags().row_contiguous || in.size() == 0) {
    return in.data<char>();
  }
  mx::array copy(in.shape(), in.dtype(), nullptr, {});
  copy.set_data(mx::allocator::malloc(copy.nbytes()));
  auto& encoder = mx::cpu::get_command_encoder(stream());
  encoder.dispatch([from = in.data<char>(), to = copy.data<char>(), shape = in.shape(),
                    strides = in.strides(),
                    item = in.itemsize()] { copy_to_row_major(from, to, shape, strides, item); });
  const void* pointer = copy.data<char>();
  encoder.add_temporary(std::move(copy));
  return pointer;
}

}  // namespace pome::kernels
