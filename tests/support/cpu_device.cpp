// Linked into the tests of the CPU kernels: they compute on the CPU, also where MLX has a GPU.
#include <gtest/gtest.h>

#include "tensor/mlx.h"

namespace pome::test {
namespace {

class CpuDevice : public testing::Environment {
 public:
  void SetUp() override { mx::set_default_device(mx::Device::cpu); }
};

const testing::Environment* const kCpuDevice = testing::AddGlobalTestEnvironment(new CpuDevice);

}  // namespace
}  // namespace pome::test
