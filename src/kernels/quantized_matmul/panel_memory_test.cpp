#include "kernels/quantized_matmul/panel_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace pome::kernels {
namespace {

TEST(PanelMemory, GivesEveryMatrixItsOwnAlignedBytes) {
  std::vector<std::pair<PanelMemory, int64_t>> held;
  const int64_t sizes[] = {1, 64, 65, 5 << 20, 7 << 20, 100, 9 << 20, 1 << 20, 20 << 20, 3};
  for (const int64_t bytes : sizes) {
    held.emplace_back(PanelMemory::allocate(bytes), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(held.back().first.bytes()) % 64, 0u);
    std::memset(held.back().first.bytes(), static_cast<int>(held.size()), bytes);
  }
  for (size_t i = 0; i < held.size(); ++i) {
    const auto& [memory, bytes] = held[i];
    EXPECT_EQ(memory.bytes()[0], i + 1);
    EXPECT_EQ(memory.bytes()[bytes - 1], i + 1);
  }
}

TEST(PanelMemory, KeepsWhatIsHeldWhenItsNeighboursGo) {
  std::vector<PanelMemory> held;
  for (int i = 0; i < 40; ++i) {
    held.push_back(PanelMemory::allocate(1 << 20));
    std::memset(held.back().bytes(), i, 1 << 20);
  }
  for (int i = 0; i < 40; i += 2) {
    held[i] = PanelMemory();
  }
  const PanelMemory later = PanelMemory::allocate(1 << 20);
  for (int i = 1; i < 40; i += 2) {
    EXPECT_EQ(held[i].bytes()[12345], i);
  }
}

TEST(PanelMemory, UsesTheNewestPieceAgainWhenItIsGivenBack) {
  const PanelMemory before = PanelMemory::allocate(1 << 20);
  PanelMemory attempt = PanelMemory::allocate(100);
  uint8_t* bytes = attempt.bytes();
  attempt.give_back();
  PanelMemory second = PanelMemory::allocate(200);
  EXPECT_EQ(second.bytes(), bytes);
  const PanelMemory later = PanelMemory::allocate(64);
  second.give_back();  // no longer the newest: what came later stays where it is
  EXPECT_NE(PanelMemory::allocate(64).bytes(), bytes);
}

}  // namespace
}  // namespace pome::kernels
