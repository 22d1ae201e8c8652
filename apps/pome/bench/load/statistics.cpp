#include "pome/bench/load/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pome::apps {
namespace {

double quantile_of_sorted(const std::vector<double>& values, double rank) {
  const double place = rank * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - std::floor(place)) * (values[above] - values[below]);
}

}  // namespace

double quantile(std::vector<double> values, double rank) {
  if (values.empty()) {
    return 0.0;
  }
  std::sort(values.begin(), values.end());
  return quantile_of_sorted(values, rank);
}

Distribution distribution_of(const std::vector<double>& values) {
  if (values.empty()) {
    return {};
  }
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  const double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  double squares = 0.0;
  for (const double value : sorted) {
    squares += (value - mean) * (value - mean);
  }
  return {.mean = mean,
          .median = quantile_of_sorted(sorted, 0.5),
          .deviation = std::sqrt(squares / count),
          .p90 = quantile_of_sorted(sorted, 0.90),
          .p95 = quantile_of_sorted(sorted, 0.95),
          .p99 = quantile_of_sorted(sorted, 0.99),
          .max = sorted.back()};
}

}  // namespace pome::apps
