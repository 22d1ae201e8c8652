#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/sample/candidate.h"

namespace pome::kernels {

// A row of logits is scanned in blocks, wherever it stands and however many rows there are, and
// what the blocks give is put together in their order: the bits of a result depend on the row
// alone.
inline constexpr int64_t kBlock = 8192;
// Each block is dealt into groups of at most so many tokens, and the largest of each is kept: the
// k-th largest of these is a bound that at least k tokens reach.
inline constexpr int64_t kGroup = 64;
inline constexpr int64_t kGroupsPerBlock = kBlock / kGroup;

struct BlockScan {
  float largest = kLowest;
  bool broken = false;  // a NaN is among them, or both infinities
  double mass = 0.0;    // of e^((x - largest) / temperature)
};

// What one pass found in a row. Buffers are kept from row to row.
struct RowScan {
  const float* logits = nullptr;
  int64_t count = 0;
  float per_temperature = 1.0f;  // 1 / temperature, finite
  bool wants_mass = false;
  bool wants_groups = false;

  std::vector<BlockScan> blocks = {};
  std::vector<float> groups = {};
  float largest = kLowest;
  double mass = 0.0;  // of e^((x - largest) / temperature) over the row

  std::vector<std::vector<Candidate>> found = {};  // a block's tokens that passed a threshold
  std::vector<Candidate> all_found = {};

  int64_t block_count() const { return (count + kBlock - 1) / kBlock; }
  int64_t block_begin(int64_t b) const { return b * kBlock; }
  int64_t block_size(int64_t b) const { return std::min(kBlock, count - b * kBlock); }

  void begin(const float* row, int64_t tokens) {
    logits = row;
    count = tokens;
    const auto n = static_cast<size_t>(block_count());
    blocks.assign(n, {});
    if (found.size() < n) {
      found.resize(n);
    }
    if (wants_groups) {
      groups.assign(n * kGroupsPerBlock, kLowest);
    }
  }

  // After every block was scanned: false when nothing can be drawn from this row.
  bool merge() {
    bool broken = false;
    largest = kLowest;
    for (const BlockScan& block : blocks) {
      broken |= block.broken;
      largest = std::max(largest, block.largest);
    }
    if (broken || !std::isfinite(largest)) {
      return false;
    }
    mass = 0.0;
    for (const BlockScan& block : blocks) {
      if (block.mass > 0.0) {
        const double below = (double{block.largest} - double{largest}) * double{per_temperature};
        mass += block.mass * std::exp(below);
      }
    }
    return true;
  }

  // A bound that at least k tokens reach, and few more; destroys `groups`.
  float bound_of_best(int64_t k) {
    if (k > static_cast<int64_t>(groups.size())) {
      return kLowest;
    }
    const auto at = groups.begin() + (k - 1);
    std::nth_element(groups.begin(), at, groups.end(), [](float a, float b) { return a > b; });
    return *at;
  }

  // What the blocks found, in order of id.
  void gather() {
    all_found.clear();
    for (int64_t b = 0; b < block_count(); ++b) {
      all_found.insert(all_found.end(), found[b].begin(), found[b].end());
    }
  }

  // The k best of what was found, in no order.
  void keep_best(int64_t k) {
    if (k < static_cast<int64_t>(all_found.size())) {
      std::nth_element(all_found.begin(), all_found.begin() + k, all_found.end(), better);
      all_found.resize(k);
    }
  }
};

}  // namespace pome::kernels
