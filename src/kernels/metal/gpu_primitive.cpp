#include <stdexcept>

#include "kernels/metal/launch.h"

namespace pome::kernels::metal {

GpuPrimitive::GpuPrimitive() : mx::Primitive(mx::default_stream(mx::Device::gpu)) {}

void GpuPrimitive::eval_cpu(const std::vector<mx::array>&, std::vector<mx::array>&) {
  throw std::runtime_error(std::string("[") + name() + "] runs on a GPU stream only");
}

}  // namespace pome::kernels::metal
