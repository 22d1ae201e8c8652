#include "kernels/metal/launch.h"

#include <stdexcept>

namespace pome::kernels::metal {
namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error("[metal] this program was built against an MLX without Metal");
}

}  // namespace

bool available() {
  return false;
}

Launch::Launch(const mx::Stream&, const Kernel&) {
  refuse();
}

void Launch::input(const mx::array&, int) {
  refuse();
}

void Launch::output(mx::array&, int) {
  refuse();
}

void Launch::bytes(const void*, size_t, int) {
  refuse();
}

void Launch::shared(size_t, int) {
  refuse();
}

void Launch::dispatch(const Extent&, const Extent&) {
  refuse();
}

}  // namespace pome::kernels::metal
