#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "base/json.h"

namespace pome::protocol {

// Calls body(value, seed) for what is still JSON of 20,000 copies of a good request with a few
// bytes replaced. The seed is new in each run, and noted in the test's report.
template <class Body>
void for_each_mutation(const std::string& good, Body body) {
  const uint64_t seed = std::random_device{}();
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (uint64_t edit = random() % 3 + 1; edit > 0; --edit) {
      constexpr std::string_view kBytes = "{}[]\",:0123456789-.eEntfax\\";
      text[random() % text.size()] = kBytes[random() % kBytes.size()];
    }
    if (const auto value = parse_json(text)) {
      body(*value, seed);
    }
  }
}

}  // namespace pome::protocol
