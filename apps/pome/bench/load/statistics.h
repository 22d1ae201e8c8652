#pragma once

#include <vector>

namespace pome::apps {

// Of sorted values the one at part `rank` in [0, 1], between two neighbours by their distance: 0.5
// is the median, 1 the largest. 0 of no values.
double quantile(std::vector<double> values, double rank);

// What benchmark tables say of many values; zeros of no values.
struct Distribution {
  double mean = 0.0;
  double median = 0.0;
  double deviation = 0.0;  // of the population
  double p90 = 0.0;
  double p95 = 0.0;
  double p99 = 0.0;
  double max = 0.0;
};
Distribution distribution_of(const std::vector<double>& values);

}  // namespace pome::apps
