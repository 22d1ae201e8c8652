#include "kernels/metal/launch.h"

#include <mlx/backend/metal/device.h>

namespace pome::kernels::metal {

bool available() {
  return mx::metal::is_available();
}

Launch::Launch(const mx::Stream& stream, const Kernel& kernel) {
  mx::metal::Device& device = mx::metal::device(stream.device);
  MTL::Library* library =
      device.get_library(kernel.library, [&] { return std::string(kernel.text); });
  encoder_ = &mx::metal::get_command_encoder(stream);
  encoder_->set_compute_pipeline_state(device.get_kernel(kernel.name, library));
}

void Launch::input(const mx::array& array, int index) {
  encoder_->set_input_array(array, index);
}

void Launch::output(mx::array& array, int index) {
  encoder_->set_output_array(array, index);
}

void Launch::bytes(const void* data, size_t size, int index) {
  encoder_->set_bytes(static_cast<const std::byte*>(data), static_cast<int>(size), index);
}

void Launch::shared(size_t bytes, int index) {
  encoder_->set_threadgroup_memory_length(bytes, index);
}

void Launch::dispatch(const Extent& groups, const Extent& threads_of_group) {
  const auto size = [](const Extent& e) { return MTL::Size(e[0], e[1], e[2]); };
  encoder_->dispatch_threadgroups(size(groups), size(threads_of_group));
}

}  // namespace pome::kernels::metal
