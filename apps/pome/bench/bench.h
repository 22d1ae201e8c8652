#pragma once

#include <string>
#include <vector>

#include "pome/flags/flag.h"

namespace pome::apps {

// One benchmark: `pome bench NAME`.
struct Benchmark {
  std::string name;
  std::string summary;
  std::vector<Flag> (*rows)();
  bool launch;  // takes the launch flags too
  int (*run)(const std::vector<std::string>& words);
};

const std::vector<Benchmark>& benchmarks();

std::vector<Flag> serving_rows();
int serving_benchmark(const std::vector<std::string>& words);
std::vector<Flag> one_batch_server_rows();
int one_batch_server_benchmark(const std::vector<std::string>& words);
std::vector<Flag> offline_throughput_rows();
int offline_throughput_benchmark(const std::vector<std::string>& words);
std::vector<Flag> one_batch_rows();
int one_batch_benchmark(const std::vector<std::string>& words);

}  // namespace pome::apps
