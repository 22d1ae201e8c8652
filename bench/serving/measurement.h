#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace pome::bench {

// What a figure is held against.
struct Bar {
  enum class Side { at_most, at_least };
  Side side = Side::at_most;
  double value = 0.0;
};

// One figure of a scenario: a value for each repetition.
struct Measurement {
  std::string name = {};
  std::string unit = {};
  std::vector<double> values = {};
  std::optional<Bar> bar = {};  // of the median

  double median() const;
  bool met() const;
};

using Measurements = std::vector<Measurement>;

// "decode of 16   123.4 tokens/s   bar: at least 100   met".
std::string to_line(const Measurement& measurement);
json::object to_json(const Measurement& measurement);

}  // namespace pome::bench
